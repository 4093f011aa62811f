"""What a term of a distillation is, and the terms by name: one is listed here, or added through `splitstep.terms`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, final

import torch
from torch import Tensor, nn

from ...flows.keys import Key
from ...support.registry import Registry
from ..records import LOGITS, Aligned, Outputs, Shapes, SpanKind


@final
@dataclass(frozen=True)
class Needs:
    """What a term reads: nothing else has to be computed or kept in a cache. Labels and real tokens are always there.

    `a | b` is what two terms need together.
    """

    teacher: frozenset[Key] = frozenset()
    student: frozenset[Key] = frozenset()
    spans: frozenset[SpanKind] = frozenset()
    limits: frozenset[tuple[SpanKind, int]] = frozenset()
    """How many spans of a text, of which kind, a term compares with each other at most: the first ones."""
    same_tokens: bool = False
    """Whether both models must read the same tokens."""
    vocabulary: bool = False
    """Whether the tokens that both models have must be known."""

    def __or__(self, other: "Needs") -> "Needs":
        return Needs(*(getattr(self, one.name) | getattr(other, one.name) for one in fields(self)))


def logits_at(temperature: float) -> Needs:
    """The logits of both models, with the rest of the teacher's at a temperature."""
    return Needs(frozenset({LOGITS, Key("tail", temperature)}), frozenset({LOGITS}))


Projectors = Mapping[str, nn.Module]
"""Modules of a term's own, by name."""


class Term(ABC):
    """One summand of a method: a function of what the teacher showed, what the student shows, and how they align.

    A term is a frozen dataclass. Its fields are its options, with the types and defaults that a method's text has.
    """

    @abstractmethod
    def needs(self, shapes: Shapes) -> Needs:
        """What the term reads; layers that do not exist are refused here."""

    def projectors(self, shapes: Shapes, seed: torch.Generator) -> Projectors:
        """Modules of the term's own that are trained with the student, by the names under which they are passed."""
        return {}

    @abstractmethod
    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        """The loss, a 0-d tensor in float32 or better: this part's share of the batch's mean."""


def check_temperature(temperature: float) -> None:
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature is {temperature:g}: give a number above 0, such as temperature=2.")


def check_limit(spans: int) -> None:
    if spans < 2:
        raise ValueError(f"spans is {spans}: give at least 2, such as spans=1024.")


def check_tokens(teacher: Outputs, student: Outputs, name: str) -> None:
    """An error unless both models read the same number of tokens."""
    if teacher.real.shape != student.real.shape:
        raise ValueError(
            f"{name} compares token by token, but the teacher has {tuple(teacher.real.shape)} tokens and the student "
            f"{tuple(student.real.shape)}: use sra or uld between different tokenizers."
        )


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
            "uld": "divergences:SortedProbabilities",
            "hidden": "states:HiddenStates",
            "mta.dsa": "states:SpanStructure",
            "mta.hid": "states:WeightedHidden",
            "sra.centre": "sra:SpanCentres",
            "sra.geometry": "sra:SpanGeometry",
            "sra.vocabulary": "sra:SharedVocabulary",
        }.items()
    },
)
