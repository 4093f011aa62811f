"""What the divergences have in common: temperature, what they read, the mean over the answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from ..divergences import mean_divergence
from ..records import Aligned, Shapes, Shown
from .term import Needs, Term, check_temperature


@dataclass(frozen=True)
class Divergence(Term):
    """A divergence between p and q, which are softmax(logits / temperature) of teacher and student.

    The term is its mean over the positions that predict the answer, times temperature², so that gradients keep their
    size (Hinton et al.). If the teacher shows its largest logits only, the rest of the vocabulary is one class, and the
    term is a lower bound.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def needs(self, shapes: Shapes) -> Needs:
        return Needs(frozenset({"logits"}), frozenset({self.temperature}), same_tokens=True)

    @abstractmethod
    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        """The divergence of each row, [N], from log probabilities [N, classes]."""

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        return mean_divergence(teacher, student, aligned, self.between, self.temperature)


@dataclass(frozen=True)
class Skewed(Divergence):
    """A divergence from a mixture that has a share `alpha` of the first distribution; DistiLLM's is 0.1."""

    alpha: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha:g}: give a number from 0 to below 1, such as alpha=.1.")
