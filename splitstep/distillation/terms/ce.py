"""Cross-entropy of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor, nn

from ...kernels.loss import cross_entropy, shifted
from ..divergences import item_count
from ..records import Aligned, Shapes, Shown
from .term import Needs, Term


@final
@dataclass(frozen=True)
class CrossEntropy(Term):
    """-log q(y), the mean over the tokens y of the answer; q is the student's distribution. It reads no teacher."""

    def needs(self, shapes: Shapes) -> Needs:
        return Needs()

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        assert isinstance(student.logits, Tensor), "the student's logits must be whole"
        return cross_entropy(student.logits, shifted(aligned.labels), item_count(aligned))
