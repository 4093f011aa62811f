"""Schemes against each other at equal cost: runs, statistics, result."""
