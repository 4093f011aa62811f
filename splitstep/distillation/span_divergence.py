"""KL divergences between products with two output matrices: logits are computed once, and never all of them exist."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ..kernels.loss import COLUMNS
from ..kernels.softmax import softmax_kernels, softmax_of
from .records import wide

ENTRIES = 2**22  # of a part's logits, if there are few points: 16 MiB in float32, of which about four exist at a time
PARTS = 16  # at most: of many points a part is a sixteenth, for each part costs the same number of calls


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
    sides = [aligned(Side(*(x.detach().to(dtype) for x in side))) for side in (teacher, student)]
    with torch.autocast(kind, enabled=False):
        total: Tensor = WeightedKL.apply(*sides, wide(weights).detach(), *student)  # pyright: ignore
    return total


def aligned(side: Side) -> Side:
    """The side with rows of zeros appended, if kernels run on it: GPUs multiply matrices of odd widths slowly."""
    more = -len(side.rows) % COLUMNS
    return side._replace(rows=functional.pad(side.rows, (0, 0, 0, more))) if softmax_kernels(side.rows) else side
