"""Doors: what a person calls, from Python or from a shell. Each is a typed function, of which a verb is derived."""
