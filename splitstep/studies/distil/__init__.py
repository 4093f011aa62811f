"""Methods of distillation against each other: runs, judging, statistics over seeds, claims, tables, page."""

from .. import Study
from .page import distil_page
from .reading import read_distil
from .study import compare_methods
from .tables import distil_tables
from .verdict import distil_verdict

__all__ = ["STUDY", "compare_methods"]

STUDY = Study("Distillation", read_distil, distil_tables, distil_page, verdict=distil_verdict)
