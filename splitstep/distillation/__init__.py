"""Distillation: what a teacher shows, how texts align, and the terms that a student minimises."""
