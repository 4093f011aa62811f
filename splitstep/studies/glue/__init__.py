"""Pre-trained networks fine-tuned on GLUE: bodies, runs, statistics over pre-training seeds, claims, tables, page."""

from .. import Study
from .bodies import read_starts
from .page import glue_page
from .result import read_glue
from .study import glue
from .tables import glue_tables
from .verdict import glue_verdict

__all__ = ["STUDY", "glue", "read_starts"]

STUDY = Study("GLUE", read_glue, glue_tables, glue_page, verdict=glue_verdict)
