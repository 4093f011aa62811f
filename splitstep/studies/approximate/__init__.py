"""The study of networks that are built: what is certified, what it costs, and what training finds at the same size."""

from .report import STUDY
from .study import Approximation, approximation

__all__ = ["STUDY", "Approximation", "approximation"]
