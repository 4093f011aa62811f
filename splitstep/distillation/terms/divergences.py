"""Divergences between the distributions of teacher and student over one vocabulary."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from torch import Tensor

from ...kernels.loss import cross_entropy, shifted
from ..losses import item_count, kl_divergence, mean_divergence, mixture
from ..records import LOGITS, Aligned, Outputs, Shapes
from .term import Needs, Projectors, Term, check_temperature, logits_at


@final
@dataclass(frozen=True)
class CrossEntropy(Term):
    """-log q(y), the mean over the tokens y of the answer; q is the student's distribution. It reads no teacher."""

    def needs(self, shapes: Shapes) -> Needs:
        return Needs(student=frozenset({LOGITS}))

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        return cross_entropy(student[LOGITS], shifted(aligned.labels), item_count(aligned))


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
        return logits_at(self.temperature) | Needs(same_tokens=True)

    @abstractmethod
    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        """The divergence of each row, [N], from log probabilities [N, classes]."""

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        return mean_divergence(teacher, student, aligned, self.between, self.temperature)


@final
@dataclass(frozen=True)
class ForwardKL(Divergence):
    """KL(p | q) = sum over the vocabulary of p log(p / q), p the teacher's."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_p, log_q)


@final
@dataclass(frozen=True)
class ReverseKL(Divergence):
    """KL(q | p) = sum over the vocabulary of q log(q / p), q the student's."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_q, log_p)


@final
@dataclass(frozen=True)
class JensenShannon(Divergence):
    """JS(p, q) = KL(p | m) / 2 + KL(q | m) / 2 with m = (p + q) / 2. At temperature 1 it is at most log 2."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        m = mixture(log_p, log_q, 0.5)
        return (kl_divergence(log_p, m) + kl_divergence(log_q, m)) / 2


@dataclass(frozen=True)
class Skewed(Divergence):
    """A divergence from a mixture that has a share `alpha` of the first distribution; DistiLLM's is 0.1."""

    alpha: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha:g}: give a number from 0 to below 1, such as alpha=.1.")


@final
@dataclass(frozen=True)
class SkewedKL(Skewed):
    """KL(p | alpha p + (1 - alpha) q), p the teacher's; `kl` if alpha is 0."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_p, mixture(log_p, log_q, self.alpha))


@final
@dataclass(frozen=True)
class SkewedReverseKL(Skewed):
    """KL(q | alpha q + (1 - alpha) p), q the student's; `rkl` if alpha is 0."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_q, mixture(log_q, log_p, self.alpha))
