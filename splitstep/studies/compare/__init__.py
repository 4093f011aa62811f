"""Schemes against each other at equal cost: runs, statistics, result, document."""

from ...experiments.study import Study
from .document import document
from .result import Comparison, against
from .study import compare
from .tables import tables_together

__all__ = ["STUDY", "compare"]

STUDY = Study(Comparison, document, tables_together, against)
