"""Ablations: arms that lack residuals or norms, trained and measured layer by layer."""

from ...experiments.study import Study
from .document import document, tables_together
from .result import Ablation
from .study import ablate

__all__ = ["STUDY", "ablate"]

STUDY = Study(Ablation, document, tables_together)
