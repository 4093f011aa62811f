"""Pre-trained networks fine-tuned on GLUE: bodies, runs, statistics over pre-training seeds, claims, tables, page."""

from ...experiments.study import Study
from .bodies import read_starts
from .document import document
from .result import GlueResult
from .rows import DEFAULT
from .study import glue

__all__ = ["DEFAULT", "STUDY", "glue", "read_starts"]

STUDY = Study(GlueResult, document)
