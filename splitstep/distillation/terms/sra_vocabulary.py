"""SRA's distributions over the shared vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ..divergences import row_count
from ..geometry import SPANS
from ..records import Aligned, Shapes, Shown, present
from ..span_divergence import Side, weighted_kl
from .sra import needs_within, span_centres
from .term import Needs, Term, check_limit, check_temperature


@final
@dataclass(frozen=True)
class SharedVocabulary(Term):
    """sum over spans w_i KL(p_i | q_i), p_i = softmax(E^T C^T_i / temperature), q_i = softmax(E^S C^S_i / temperature).

    E has the rows of a model's output matrix whose tokens both models have, in the same order. Centres C_i and weights
    w_i are those of `sra.centre`.

    Ours: the weights w_i, the factor temperature², the mean over texts. A text compares its first `spans` spans, 1024
    in the paper. The logits of a few spans exist at a time, and are computed once.
    """

    temperature: float = 2.0
    spans: int = SPANS

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        return needs_within(self.spans) | Needs(frozenset({"output", "vocabulary"}))

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        centres = span_centres(teacher, student, aligned, self.spans)
        shared = present(aligned.vocabulary, "the shared vocabulary")
        theirs = present(teacher.output, "the teacher's output matrix").index_select(0, shared[:, 0])
        own = present(student.output, "the student's output matrix").index_select(0, shared[:, 1])
        known, learning = (x.flatten(0, 1) / self.temperature for x in (centres.teacher, centres.student))
        weights = centres.weights / row_count(centres.weights, aligned)
        total = weighted_kl(Side(known, theirs), Side(learning, own), weights.flatten())
        return self.temperature**2 * total
