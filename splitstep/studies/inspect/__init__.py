"""The study of a pretrained model as a dynamical system: what its layers do to tokens, beside a null model."""

from ...experiments.study import Study
from .document import document
from .result import Inspection, converted
from .study import inspection

__all__ = ["STUDY", "Inspection", "inspection"]

STUDY = Study(Inspection, document, converted=converted)
