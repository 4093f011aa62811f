"""Studies: each is a function that returns a typed result."""
