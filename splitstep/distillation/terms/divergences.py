"""Terms between what teacher and student predict: divergences over one vocabulary, and sorted probabilities (ULD)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor
from torch.nn import functional

from ...kernels.loss import cross_entropy, shifted
from ..losses import answers, cooled, in_chunks, item_count, kl_divergence, mixture, row_divergences, token_mean
from ..records import LOGITS, Aligned, Distribution, Outputs, Shapes, each
from . import Needs, Projectors, Term, check_temperature, logits_at


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
        values = row_divergences(teacher.logits, student[LOGITS], self.between, self.temperature)
        return self.temperature**2 * token_mean(values, aligned)


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


@final
@dataclass(frozen=True)
class SortedProbabilities(Term):
    """sum over i of |p_(i) - q_(i)|, p and q sorted in descending order, the shorter one filled up with zeros (ULD).

    p and q are softmax(logits / temperature) of teacher and student. With `at=order` the j-th position that predicts
    the teacher's answer is compared with the student's j-th, up to the end of the shorter answer, as in the paper.
    With `at=ends` (ours) positions are compared where both models have read the same bytes: the last tokens of the
    aligned spans, if the student predicts its answer there.

    Ours: the sum over positions is divided by the number of the student's answer tokens. If the teacher shows its K
    largest logits, both tails beyond the K largest are one class each, which gives a lower bound.
    """

    temperature: float = 1.0
    at: Literal["order", "ends"] = "order"

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def needs(self, shapes: Shapes) -> Needs:
        return logits_at(self.temperature) | Needs(spans=frozenset({"aligned"} if self.at == "ends" else ()))

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        p, q = teacher.logits, student[LOGITS]
        theirs, own, mask = by_order(aligned) if self.at == "order" else by_ends(aligned)
        known = each(lambda x: picked(x, theirs), p)
        values = in_chunks(known, picked(q, own), self.distance, q.shape[-1])
        return values.masked_fill(~mask.flatten(), 0).sum() / item_count(aligned)

    def distance(self, known: Distribution, part: Tensor) -> Tensor:
        """The distance of sorted probabilities, [N]."""
        q = cooled(part, self.temperature).softmax(-1)
        if isinstance(known, Tensor):
            p = cooled(known, self.temperature).softmax(-1)
            return between(p.sort(-1, descending=True).values, q.sort(-1, descending=True).values)
        p, tail = known.logs(self.temperature).exp().split((known.ids.shape[-1], 1), -1)
        largest = q.topk(min(q.shape[-1], p.shape[-1]), -1).values
        rest = 1 - largest.sum(-1, keepdim=True)
        return between(p.sort(-1, descending=True).values, largest) + (tail - rest).abs().squeeze(-1)


def between(p: Tensor, q: Tensor) -> Tensor:
    """The sum of |p_i - q_i|, the shorter one filled up with zeros."""
    size = max(p.shape[-1], q.shape[-1])
    p, q = (functional.pad(x, (0, size - x.shape[-1])) for x in (p, q))
    return (p - q).abs().sum(-1)


def picked(x: Tensor, positions: Tensor) -> Tensor:
    """Rows [B J, ...] of x [B, T, ...] at positions [B, J]: one copy, whose gradient is added up once."""
    first = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (positions + first).flatten())


def by_order(aligned: Aligned) -> tuple[Tensor, Tensor, Tensor]:
    """The positions of teacher and student that predict the j-th token of their answers, and which pairs there are."""
    own = answers(aligned.labels)
    theirs = answers(aligned.labels if aligned.teacher_labels is None else aligned.teacher_labels)
    size = min(own.shape[1], theirs.shape[1])
    counts = torch.minimum(own.sum(1), theirs.sum(1))
    firsts = [torch.argsort(~mask, dim=1, stable=True)[:, :size] for mask in (theirs, own)]
    return firsts[0], firsts[1], torch.arange(size, device=own.device) < counts[:, None]


def by_ends(aligned: Aligned) -> tuple[Tensor, Tensor, Tensor]:
    """The last tokens of the aligned spans of teacher and student, and which of them predict the student's answer."""
    spans = aligned.spans["aligned"]
    theirs, own = (ranges[..., 1].sub(1).clamp(min=0) for ranges in (spans.teacher, spans.student))
    return theirs, own, spans.mask & answers(aligned.labels).gather(1, own)
