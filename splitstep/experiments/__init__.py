"""Experiments: what studies share, from runs and estimates to claims, results and sections of documents."""
