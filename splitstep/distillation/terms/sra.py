"""SRA's three terms: centres of mass of the spans that both models read, their geometry, what they say.

Centres C_i = sum of w_t H_t over span i / sum of w_t, with each model's own masses w_t (`attention_masses`), detached,
and its states H after the final norm. The weight w_i of a span is the teacher's mass of it, normalised to 1 over the
spans of a text. A text compares its first `spans` spans, 1024 in the paper. Ours: H, w_i, and the mean over texts.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ...kernels.loss import COLUMNS
from ...kernels.softmax import softmax_kernels, softmax_of
from ..geometry import SPANS, angles, centres, normalised, shares, structure
from ..losses import row_count, row_mean
from ..records import FINAL, MASSES, OUTPUT, Aligned, Outputs, Shapes, wide
from . import Needs, Projectors, Term, check_limit, check_temperature
from .states import projector

ENTRIES = 2**22  # of a part's logits, if there are few points: 16 MiB in float32, of which about four exist at a time
PARTS = 16  # at most: of many points a part is a sixteenth, for each part costs the same number of calls


class Centres(NamedTuple):
    """The centres of spans of both models, [B, S, d], and the spans' weights, [B, S], which sum to 1 in each text."""

    teacher: Tensor
    student: Tensor
    weights: Tensor


def centres_of(shown: Outputs, ranges: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The spans of one model: C_i = sum of w_t H_t / sum of w_t, with H after the final norm and w_t detached, and the
    sums of w_t."""
    found = shares(shown[MASSES].detach().masked_fill(~shown.real, 0), ranges, mask)
    return centres(shown[FINAL], found.shares), found.masses


def span_centres(teacher: Outputs, student: Outputs, aligned: Aligned, limit: int) -> Centres:
    """The first `limit` spans of each text; a span's weight is its share of the teacher's mass in all of them."""

    def make() -> Centres:
        spans = aligned.spans["aligned"].at_most(limit)
        known, masses = centres_of(teacher, spans.teacher, spans.mask)
        own, _ = centres_of(student, spans.student, spans.mask)
        return Centres(known, own, normalised(masses))

    return student.once((span_centres, teacher, aligned, limit), make)


class OfSpans(Term):
    """A term of the first `spans` spans of a text, which both models read."""

    spans: int

    def __post_init__(self) -> None:
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        keys = frozenset({FINAL, MASSES})
        return Needs(keys, keys, frozenset({"aligned"}), frozenset({("aligned", self.spans)}))


@final
@dataclass(frozen=True)
class SpanCentres(OfSpans):
    """sum over spans w_i (1 - cos(P C^S_i, C^T_i)).

    P is a linear map from the student's width to the teacher's that starts orthogonal.
    """

    spans: int = SPANS

    def projectors(self, shapes: Shapes, seed: Generator) -> Projectors:
        return {"centres": projector(shapes, seed)}

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        found = span_centres(teacher, student, aligned, self.spans)
        map = projectors["centres"]  # in its precision, or that of autocast
        gaps = angles(map(found.student.to(map.get_parameter("weight").dtype)), found.teacher)
        return row_mean((found.weights * gaps).sum(1), aligned)


@final
@dataclass(frozen=True)
class SpanGeometry(OfSpans):
    """weighted mean over pairs of spans of (cos(C^S_i, C^S_j) - cos(C^T_i, C^T_j))².

    The student's centres are not projected. Ours: a pair has the weight w_i w_j, normalised to 1 over the pairs i != j
    of a text; the mean over texts, of which one with fewer than two spans adds 0.
    """

    spans: int = SPANS

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        found = span_centres(teacher, student, aligned, self.spans)
        return row_mean(structure(found.teacher, found.student, found.weights), aligned)


@final
@dataclass(frozen=True)
class SharedVocabulary(OfSpans):
    """sum over spans w_i KL(p_i | q_i), p_i = softmax(E^T C^T_i / temperature), q_i = softmax(E^S C^S_i / temperature).

    E has the rows of a model's output matrix whose tokens both models have, in the same order. Ours: the weights w_i,
    the factor temperature². The logits of a few spans exist at a time, and are computed once.
    """

    temperature: float = 2.0
    spans: int = SPANS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_temperature(self.temperature)

    def needs(self, shapes: Shapes) -> Needs:
        return super().needs(shapes) | Needs(frozenset({OUTPUT}), frozenset({OUTPUT}), vocabulary=True)

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        found = span_centres(teacher, student, aligned, self.spans)
        assert aligned.vocabulary is not None, "the method needs the shared vocabulary"
        theirs, own = (x[OUTPUT].index_select(0, aligned.vocabulary[:, i]) for i, x in enumerate((teacher, student)))
        known, learning = (x.flatten(0, 1) / self.temperature for x in (found.teacher, found.student))
        weights = found.weights / row_count(found.weights, aligned)
        total = weighted_kl(Side(known, theirs), Side(learning, own), weights.flatten())
        return self.temperature**2 * total


class Side(NamedTuple):
    """One model: points [N, d], and the rows [P, d] of its output matrix. Its logits are their products."""

    points: Tensor
    rows: Tensor

    def logits(self, part: slice) -> Tensor:
        """The logits of some points, [n, P]."""
        return self.points[part] @ self.rows.mT


class WeightedKL(torch.autograd.Function):
    """sum over i of w_i KL(p_i | q_i), p and q being the softmax of the logits of teacher and student.

    The gradient in the student's logits is w_i (q_i - p_i), which needs nothing that comes later. So it is carried to
    the student's points and rows at once, while the logits of a few points exist, and a backward pass only multiplies
    by a number. Only the student has a gradient.
    """

    @staticmethod
    def forward(ctx: Any, teacher: Side, student: Side, weights: Tensor, *inputs: Tensor) -> Tensor:  # pyright: ignore
        """`inputs`: the student's points and rows in their own precision, `student` in that of the products, perhaps
        with more rows, which do not count."""
        slopes = Side(torch.empty_like(student.points), torch.zeros_like(student.rows, dtype=weights.dtype))
        size = max(1, ENTRIES // len(student.rows), -(-len(weights) // PARTS))
        parts = [slice(begin, begin + size) for begin in range(0, len(weights), size)]
        classes = len(inputs[1])
        total = torch.cat([add_part(teacher, student, weights, classes, part, slopes) for part in parts]).sum()
        ctx.save_for_backward(slopes.points.to(inputs[0].dtype), slopes.rows[:classes].to(inputs[1].dtype))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, None, None, *(g * slope for slope in ctx.saved_tensors)


def add_part(teacher: Side, student: Side, weights: Tensor, classes: int, part: slice, slopes: Side) -> Tensor:
    """The divergences of some points, whose share of the slopes is added to them."""
    q = student.logits(part)
    values = softmax_of(q).weighted_kl_(teacher.logits(part), q, weights[part], classes)  # q are slopes now
    torch.mm(q, student.rows, out=slopes.points[part])
    slopes.rows.add_(q.mT @ student.points[part])
    return values


def weighted_kl(teacher: Side, student: Side, weights: Tensor) -> Tensor:
    """sum over i of w_i KL(p_i | q_i). The products are in the rows' precision, or that of autocast."""
    kind = student.points.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else student.rows.dtype
    sides = [with_columns(Side(*(x.detach().to(dtype) for x in side))) for side in (teacher, student)]
    with torch.autocast(kind, enabled=False):
        total: Tensor = WeightedKL.apply(*sides, wide(weights).detach(), *student)  # pyright: ignore
    return total


def with_columns(side: Side) -> Side:
    """The side with rows of zeros appended, if kernels run on it: GPUs multiply matrices of odd widths slowly."""
    more = -len(side.rows) % COLUMNS
    return side._replace(rows=functional.pad(side.rows, (0, 0, 0, more))) if softmax_kernels(side.rows) else side
