"""Terms of distillation by name: a term is listed here, or added through the group `splitstep.terms`."""

from __future__ import annotations

from typing import Any

from ...support.registry import Registry
from .term import Needs, Term

__all__ = ["TERMS", "Needs", "Term"]


def accept(given: Any) -> type[Term]:
    """A class of another package, if it is a term."""
    if not (isinstance(given, type) and issubclass(given, Term)):
        raise ValueError("it must be a subclass of splitstep.distillation.terms.Term")
    return given


TERMS: Registry[type[Term]] = Registry(
    "term",
    accept=accept,
    paths={
        name: f"{__name__}.{path}"
        for name, path in {
            "ce": "divergences:CrossEntropy",
            "kl": "divergences:ForwardKL",
            "rkl": "divergences:ReverseKL",
            "js": "divergences:JensenShannon",
            "skl": "divergences:SkewedKL",
            "srkl": "divergences:SkewedReverseKL",
            "uld": "uld:SortedProbabilities",
            "hidden": "states:HiddenStates",
            "mta.dsa": "states:SpanStructure",
            "mta.hid": "states:WeightedHidden",
            "sra.centre": "sra:SpanCentres",
            "sra.geometry": "sra:SpanGeometry",
            "sra.vocabulary": "sra:SharedVocabulary",
        }.items()
    },
)
