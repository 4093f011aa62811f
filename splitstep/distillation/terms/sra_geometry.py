"""SRA's geometry of spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ..divergences import row_mean
from ..geometry import SPANS, structure
from ..records import Aligned, Shapes, Shown
from .sra import needs_within, span_centres
from .term import Needs, Term, check_limit


@final
@dataclass(frozen=True)
class SpanGeometry(Term):
    """weighted mean over pairs of spans of (cos(C^S_i, C^S_j) - cos(C^T_i, C^T_j))².

    Centres C_i and weights w_i are those of `sra.centre`; the student's centres are not projected.

    Ours: a pair has the weight w_i w_j, normalised to 1 over the pairs i != j of a text; the mean over texts, of which
    one with fewer than two spans adds 0. A text compares its first `spans` spans, 1024 in the paper.
    """

    spans: int = SPANS

    def __post_init__(self) -> None:
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        return needs_within(self.spans)

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        centres = span_centres(teacher, student, aligned, self.spans)
        return row_mean(structure(centres.teacher, centres.student, centres.weights), aligned)
