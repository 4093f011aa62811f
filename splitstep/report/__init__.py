"""Tables, charts, diagrams and pages, with which every study shows its result."""
