"""Studies: each is a function that returns a typed result, and a `Study` that says how to read and show it."""
