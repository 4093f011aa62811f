"""Distillation: what a teacher shows is matched by a student, along depth and across tokenizers."""
