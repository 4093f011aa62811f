"""SRA's distributions over the shared vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ..divergences import in_chunks, kl_divergence, row_mean
from ..geometry import SPANS
from ..records import Aligned, Distribution, Shapes, Shown, present, wide
from .sra import NEEDS, span_centres
from .term import Needs, Term, check_limit, check_temperature


@final
@dataclass(frozen=True)
class SharedVocabulary(Term):
    """sum over spans w_i KL(p_i | q_i), p_i = softmax(E^T C^T_i / temperature), q_i = softmax(E^S C^S_i / temperature).

    E has the rows of a model's output matrix whose tokens both models have, in the same order. Centres C_i and weights
    w_i are those of `sra.centre`.

    Ours: the weights w_i, the factor temperature², the mean over texts. A text compares its first `spans` spans, 1024
    in the paper. The logits of a few spans exist at a time.
    """

    temperature: float = 2.0
    spans: int = SPANS

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        return NEEDS | Needs(frozenset({"output", "vocabulary"}))

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        centres = span_centres(teacher, student, aligned, self.spans)
        shared = present(aligned.vocabulary, "the shared vocabulary")
        theirs = present(teacher.output, "the teacher's output matrix")[shared[:, 0]]
        own = present(student.output, "the student's output matrix")[shared[:, 1]]

        def one(known: Distribution, part: Tensor) -> Tensor:
            assert isinstance(known, Tensor)
            return kl_divergence(self.logs(known, theirs), self.logs(part, own))

        values = in_chunks(centres.teacher.flatten(0, 1), centres.student.flatten(0, 1), one, len(shared))
        return self.temperature**2 * row_mean((centres.weights * values.view(centres.weights.shape)).sum(1), aligned)

    def logs(self, centres: Tensor, rows: Tensor) -> Tensor:
        """log softmax over the shared vocabulary. The product is autocast's, since it is the costly part."""
        return (wide(centres.to(rows.dtype) @ rows.mT) / self.temperature).log_softmax(-1)
