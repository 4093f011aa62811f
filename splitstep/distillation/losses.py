"""Divergences between two distributions over a vocabulary, a few tokens at a time.

The teacher shows all of its logits, or its largest ones and the tail as one class. Then the student's probabilities
outside of those ids are added up as well, and the divergence is a lower bound of the full one.

The slopes of all values are computed with them, so nothing is computed twice, and a backward pass only multiplies them
by a number a token. They have the size of all logits, in their own precision. All logits of a teacher are compared in
chunks of at most `ENTRIES` entries, in float32. Positions outside of the answer are computed as well and then left out:
shapes do not depend on the data.
"""

from collections.abc import Callable
from math import log, log1p
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..kernels.loss import IGNORED, shifted
from ..kernels.softmax import softmax_of
from .records import Aligned, Distribution, TopK, each, wide

ENTRIES = 2**25  # 128 MiB in float32
Divergence = Callable[[Tensor, Tensor], Tensor]


def cooled(logits: Tensor, temperature: float) -> Tensor:
    """logits / temperature in float32 or better."""
    return wide(logits) if temperature == 1 else wide(logits) / temperature


def kl_divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p | q) = sum of p (log p - log q), in nats; classes with p = 0 count nothing."""
    p = log_p.exp()
    return (p * (log_p - log_q).masked_fill(p == 0, 0)).sum(-1)


def mixture(log_p: Tensor, log_q: Tensor, share: float) -> Tensor:
    """log(share p + (1 - share) q)."""
    if share == 0:
        return log_q
    return torch.logaddexp(log_p + log(share), log_q + log1p(-share))


def in_chunks(
    teacher: Distribution, student: Tensor, one: Callable[[Distribution, Tensor], Tensor], entries: int
) -> Tensor:
    """A function of rows of both models, `one`, which needs so many entries of memory a row: [N] from N rows. Only the
    student has a gradient."""
    found: Tensor = ByRows.apply(teacher, student, one, max(1, ENTRIES // entries))  # pyright: ignore
    return found


class ByRows(torch.autograd.Function):
    """The values of `in_chunks`. Each is a function of its own row, so its slopes times a number are its gradient."""

    @staticmethod
    def forward(ctx: Any, teacher: Distribution, student: Tensor, one: Any, rows: int) -> Tensor:  # pyright: ignore
        ctx.slopes = torch.empty_like(student) if ctx.needs_input_grad[1] else None
        values: list[Tensor] = []
        for begin in range(0, len(student), rows):
            part = slice(begin, begin + rows)
            with torch.set_grad_enabled(ctx.slopes is not None):
                x = student[part].detach().requires_grad_(ctx.slopes is not None)
                value = one(each(lambda known, part=part: known[part], teacher), x)
            if ctx.slopes is not None:
                (ctx.slopes[part],) = torch.autograd.grad(value, x, torch.ones_like(value))
            values.append(value.detach())
        return torch.cat(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, scaled(ctx.slopes, g), None, None


def scaled(slopes: Tensor, g: Tensor) -> Tensor:
    """The slopes of N rows times N numbers, rounded once to the slopes' precision."""
    return torch.mul(slopes, g[:, None], out=torch.empty_like(slopes))


class OfLargest(torch.autograd.Function):
    """A divergence over the teacher's K largest tokens and the rest of the vocabulary as one class: [N] from N rows.

    With the student's logits z at temperature t, the classes have the logits z_k / t and r = log of the sum of
    exp(z_j / t) over the rest; not 1 - sum, which would cancel. The divergence D is differentiated in those K + 1
    alone. A token of the rest then has the slope dD/dr exp(z_j / t - r) / t.
    """

    @staticmethod
    def forward(ctx: Any, teacher: TopK, student: Tensor, divergence: Divergence, temperature: float) -> Tensor:  # pyright: ignore
        rest, wants = student.detach().clone().scatter_(-1, teacher.ids, -torch.inf), ctx.needs_input_grad[1]
        softmax = softmax_of(rest)
        r = softmax.row_lse(rest, temperature)
        with torch.set_grad_enabled(wants):
            largest = cooled(student.detach().gather(-1, teacher.ids), temperature)
            classes = torch.cat((largest, r[:, None]), -1).requires_grad_(wants)
            value = divergence(teacher.logs(temperature), classes.log_softmax(-1))
        ctx.slopes = None
        if wants:
            [slopes] = torch.autograd.grad(value, classes, torch.ones_like(value))
            slopes /= temperature
            softmax.scaled_exp_(rest, r, slopes[:, -1], temperature)
            ctx.slopes = rest.scatter_(-1, teacher.ids, slopes[:, :-1].to(rest.dtype))
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None, scaled(ctx.slopes, g), None, None


def check_vocabularies(teacher: Distribution, student: Tensor) -> None:
    """An error unless both models show the same tokens of the same vocabulary."""
    if isinstance(teacher, TopK):
        shape, kind = teacher.logits.shape, "largest logits"
        fits = shape[-1] < student.shape[-1]
    else:
        shape, kind = teacher.shape, "logits"
        fits = shape[-1] == student.shape[-1]
    if not fits or shape[:-1] != student.shape[:-1]:
        raise ValueError(
            f"The teacher shows {shape[-1]} {kind} for {tuple(shape[:-1])} tokens and the student "
            f"{student.shape[-1]} for {tuple(student.shape[:-1])}: this term needs the same tokens on both sides; "
            "use uld or sra between different tokenizers."
        )


def row_divergences(teacher: Distribution, student: Tensor, divergence: Divergence, temperature: float) -> Tensor:
    """A divergence of each row of logits [..., V], in the shape of the rows; only the student has a gradient."""
    check_vocabularies(teacher, student)
    shape, student = student.shape[:-1], student.flatten(0, -2)
    teacher = each(lambda x: x.flatten(0, -2), teacher)
    if isinstance(teacher, TopK):
        found: Tensor = OfLargest.apply(teacher, student, divergence, temperature)  # pyright: ignore
        return found.view(shape)

    def one(known: Distribution, part: Tensor) -> Tensor:
        assert isinstance(known, Tensor)
        return divergence(*(cooled(x, temperature).log_softmax(-1) for x in (known, part)))

    return in_chunks(teacher, student, one, student.shape[-1]).view(shape)


def answers(labels: Tensor) -> Tensor:
    """Whether a position predicts a token of the answer, [B, T]."""
    return shifted(labels) != IGNORED


def item_count(aligned: Aligned) -> Tensor | int:
    """How many tokens the mean of the whole batch is over."""
    return answers(aligned.labels).sum().clamp(min=1) if aligned.items is None else aligned.items


def token_mean(values: Tensor, aligned: Aligned) -> Tensor:
    """The mean of values [B, T] over the positions that predict the answer, or this part's share of it."""
    return values.masked_fill(~answers(aligned.labels), 0).sum() / item_count(aligned)


def row_mean(values: Tensor, aligned: Aligned) -> Tensor:
    """The mean of values [B] over the texts, or this part's share of it."""
    return values.sum() / row_count(values, aligned)


def row_count(values: Tensor, aligned: Aligned) -> Tensor | int:
    """How many texts the mean of the whole batch is over; `values` [B, ...] are those of this part."""
    return len(values) if aligned.rows is None else aligned.rows
