"""A package of somebody else's, which adds to splitstep through entry points; installed by a test."""
