"""KL divergences between products with two output matrices: logits are computed once, and never all of them exist."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .records import wide

ENTRIES = 2**22  # of a part's logits, if there are few points: 16 MiB in float32, of which about four exist at a time
PARTS = 16  # at most: of many points a part is a sixteenth, for each part costs the same number of calls


class Side(NamedTuple):
    """One model: points [N, d], and the rows [P, d] of its output matrix. Its logits are their products."""

    points: Tensor
    rows: Tensor

    def logs(self, part: slice) -> Tensor:
        """log softmax of the logits of some points, [n, P], in float32 or better."""
        return wide(self.points[part] @ self.rows.mT).log_softmax(-1)


class WeightedKL(torch.autograd.Function):
    """sum over i of w_i KL(p_i | q_i), p and q being the softmax of the logits of teacher and student.

    The gradient in the student's logits is w_i (q_i - p_i), which needs nothing that comes later. So it is carried to
    the student's points and rows at once, while the logits of a few points exist, and a backward pass only multiplies
    by a number. Only the student has a gradient.
    """

    @staticmethod
    def forward(ctx: Any, teacher: Side, student: Side, weights: Tensor, *inputs: Tensor) -> Tensor:  # pyright: ignore
        """`inputs`: the student's points and rows in their own precision, `student` in that of the products."""
        slopes = Side(torch.empty_like(student.points), torch.zeros_like(student.rows, dtype=weights.dtype))
        size = max(1, ENTRIES // len(student.rows), -(-len(weights) // PARTS))
        parts = [slice(begin, begin + size) for begin in range(0, len(weights), size)]
        total = torch.stack([add_part(teacher, student, weights[:, None], part, slopes) for part in parts]).sum()
        ctx.save_for_backward(*(slope.to(x.dtype) for slope, x in zip(slopes, inputs, strict=True)))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, None, None, *(g * slope for slope in ctx.saved_tensors)


def add_part(teacher: Side, student: Side, weights: Tensor, part: slice, slopes: Side) -> Tensor:
    """The sum over some points, whose share of the slopes is added to them. Large tensors are changed in place."""
    log_p, log_q = teacher.logs(part), student.logs(part)
    weighted = log_p.exp().mul_(weights[part])
    total = torch.dot(weighted.flatten(), log_p.sub_(log_q).flatten())
    slope = log_q.exp_().mul_(weights[part]).sub_(weighted).to(student.rows.dtype)
    torch.mm(slope, student.rows, out=slopes.points[part])
    slopes.rows.add_(slope.mT @ student.points[part])
    return total


def weighted_kl(teacher: Side, student: Side, weights: Tensor) -> Tensor:
    """sum over i of w_i KL(p_i | q_i). The products are in the rows' precision, or that of autocast."""
    kind = student.points.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else student.rows.dtype
    sides = [Side(*(x.detach().to(dtype) for x in side)) for side in (teacher, student)]
    with torch.autocast(kind, enabled=False):
        total: Tensor = WeightedKL.apply(*sides, wide(weights).detach(), *student)  # pyright: ignore
    return total
