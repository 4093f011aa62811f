"""Schemes against each other at equal cost: runs, statistics, result, tables, page."""

from .. import Study
from .page import compare_page
from .result import read_comparison
from .rows import against
from .study import compare
from .tables import comparison_tables, tables_together
from .verdict import compare_verdict

__all__ = ["STUDY", "compare"]

STUDY = Study("Comparison", read_comparison, comparison_tables, compare_page, tables_together, against, compare_verdict)
