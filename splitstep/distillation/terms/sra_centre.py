"""SRA's centres of mass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Generator, Tensor, nn

from ..divergences import row_mean
from ..geometry import SPANS, angles
from ..records import Aligned, Shapes, Shown
from .sra import needs_within, span_centres
from .term import Needs, Term, check_limit, projected, projector


@final
@dataclass(frozen=True)
class SpanCentres(Term):
    """sum over spans w_i (1 - cos(P C^S_i, C^T_i)).

    C_i = sum of w_t H_t over span i / sum of w_t, with each model's own masses w_t (`attention_masses`), detached. w_i
    is the teacher's mass of span i. P is a linear map from the student's width to the teacher's that starts orthogonal.

    Ours: H is the state after the final norm; w_i is normalised to 1 over the spans of a text; the mean over texts. A
    text compares its first `spans` spans, 1024 in the paper.
    """

    spans: int = SPANS

    def __post_init__(self) -> None:
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        return needs_within(self.spans)

    def projectors(self, shapes: Shapes, seed: Generator) -> Mapping[str, nn.Module]:
        return {"centres": projector(shapes, seed)}

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        centres = span_centres(teacher, student, aligned, self.spans)
        gaps = angles(projected(projectors, "centres", centres.student), centres.teacher)
        return row_mean((centres.weights * gaps).sum(1), aligned)
