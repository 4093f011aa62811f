"""Ablations: arms that lack residuals or norms, trained and measured layer by layer."""

from .. import Study
from .result import read_ablation
from .study import ablate
from .tables import ablation_tables

__all__ = ["STUDY", "ablate"]

STUDY = Study("Ablation", read_ablation, ablation_tables)
