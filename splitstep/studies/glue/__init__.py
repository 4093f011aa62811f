"""Pre-trained networks fine-tuned on GLUE: bodies, runs, statistics over pre-training seeds, claims, tables, page."""

from .bodies import read_starts
from .study import glue

__all__ = ["glue", "read_starts"]
