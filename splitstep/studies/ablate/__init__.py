"""Ablations: arms that lack residuals or norms, trained and measured layer by layer."""

from .. import Study
from .page import ablation_page
from .result import read_ablation
from .study import ablate
from .tables import ablation_tables
from .verdict import ablation_verdict

__all__ = ["STUDY", "ablate"]

STUDY = Study("Ablation", read_ablation, ablation_tables, ablation_page, verdict=ablation_verdict)
