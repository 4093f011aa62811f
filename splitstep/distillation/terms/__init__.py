"""Terms of distillation, one in each file: a term is listed here, or added through the group `splitstep.terms`."""

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
            "ce": "ce:CrossEntropy",
            "kl": "kl:ForwardKL",
            "rkl": "rkl:ReverseKL",
            "js": "js:JensenShannon",
            "skl": "skl:SkewedKL",
            "srkl": "srkl:SkewedReverseKL",
            "uld": "uld:SortedProbabilities",
            "hidden": "hidden:HiddenStates",
            "mta.dsa": "mta_dsa:SpanStructure",
            "mta.hid": "mta_hid:WeightedHidden",
            "sra.centre": "sra_centre:SpanCentres",
            "sra.geometry": "sra_geometry:SpanGeometry",
            "sra.vocabulary": "sra_vocabulary:SharedVocabulary",
        }.items()
    },
)
