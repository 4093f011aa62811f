"""Methods of distillation against each other: runs, judging, statistics over seeds, claims, tables, page."""

from ...experiments.study import Study
from .document import document
from .result import DistilResult, with_claims
from .study import compare_methods

__all__ = ["STUDY", "compare_methods"]

STUDY = Study(DistilResult, document, renewed=with_claims)
