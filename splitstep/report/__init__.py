"""Tables, charts, diagrams and pages: what every study shows its result with."""
