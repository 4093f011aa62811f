"""What SRA's three terms share: centres of mass of spans."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ..geometry import Pooled, normalised, pooled
from ..records import Aligned, Shown, present
from .term import Needs


def needs_within(limit: int) -> Needs:
    """What the three terms read, of the first `limit` spans of a text."""
    return Needs(frozenset({"final", "masses"}), spans=frozenset({"aligned"}), limits=frozenset({("aligned", limit)}))


class Centres(NamedTuple):
    """The centres of spans of both models, [B, S, d], and the spans' weights, [B, S], which sum to 1 in each text."""

    teacher: Tensor
    student: Tensor
    weights: Tensor


def side(shown: Shown, ranges: Tensor, mask: Tensor) -> Pooled:
    """The spans of one model: C_i = sum of w_t H_t / sum of w_t, with H after the final norm and w_t detached."""
    masses = present(shown.masses, "attention masses").detach().masked_fill(~shown.real, 0)
    return pooled(present(shown.final, "the final states"), masses, ranges, mask)


def span_centres(teacher: Shown, student: Shown, aligned: Aligned, limit: int) -> Centres:
    """The first `limit` spans of each text; a span's weight is its share of the teacher's mass in all of them."""

    def make() -> Centres:
        spans = aligned.spans["aligned"].at_most(limit)
        known = side(teacher, spans.teacher, spans.mask)
        own = side(student, spans.student, spans.mask)
        return Centres(known.centres, own.centres, normalised(known.masses))

    return student.once((span_centres, teacher, aligned, limit), make)
