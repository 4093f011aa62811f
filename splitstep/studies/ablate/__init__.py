"""Ablations: arms that lack residuals or norms, trained and measured layer by layer."""

from .. import Study
from .page import ablation_page
from .result import read_ablation
from .study import ablate
from .tables import ablation_tables
from .together import tables_together
from .verdict import ablation_verdict

__all__ = ["STUDY", "ablate"]

STUDY = Study("Ablation", read_ablation, ablation_tables, ablation_page, tables_together, verdict=ablation_verdict)
