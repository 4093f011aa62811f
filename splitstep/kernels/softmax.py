"""Softmax over long rows of logits, for divergences. On a GPU each function reads the logits once from memory."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from .fusing import FUSED, FastKernel, ordinary

ENTRIES = 2**25  # that the formulas widen at a time: 128 MiB in float32


def wide(x: Tensor) -> Tensor:
    """The tensor in float32 or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class Kernels(NamedTuple):
    """Functions of rows [N, width]; the temperature is t.

    row_lse(x, t) -> log of the sum over j of exp(x_ij / t), [N], in float32
    scaled_exp_(x, shift, scale, t) -> x, of which x_ij is now scale_i exp(x_ij / t - shift_i)
    weighted_kl_(p, q, weights, classes) -> w_i KL(softmax p_i | softmax q_i) over the first `classes` columns, [N], in
    float32; q_ij is then w_i (softmax q - softmax p)_ij, and 0 in further columns
    """

    row_lse: Callable[[Tensor, float], Tensor]
    scaled_exp_: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    weighted_kl_: Callable[[Tensor, Tensor, Tensor, int], Tensor]


def parts(x: Tensor) -> Iterator[slice]:
    """Rows that have at most `ENTRIES` entries together."""
    rows = max(1, ENTRIES // x.shape[1])
    return (slice(begin, begin + rows) for begin in range(0, len(x), rows))


def lse_formula(x: Tensor, temperature: float) -> Tensor:
    return torch.cat([(wide(x[part]) / temperature).logsumexp(-1) for part in parts(x)])


def exp_formula(x: Tensor, shift: Tensor, scale: Tensor, temperature: float) -> Tensor:
    for part in parts(x):
        exact = wide(x[part]).div(temperature).sub_(shift[part, None]).exp_()
        x[part] = exact.mul_(scale[part, None])
    return x


def kl_formula(p: Tensor, q: Tensor, weights: Tensor, classes: int) -> Tensor:
    log_p, log_q = (wide(x[:, :classes]).log_softmax(-1) for x in (p, q))
    weighted = log_p.exp().mul_(weights[:, None])
    values = (weighted * log_p.sub_(log_q)).sum(-1)
    q[:, :classes] = log_q.exp_().mul_(weights[:, None]).sub_(weighted)
    q[:, classes:] = 0
    return values


FORMULAS = Kernels(lse_formula, exp_formula, kl_formula)


def check(found: Kernels, kind: str) -> None:
    """An error unless kernels agree with the formulas in float64, on several blocks, the last not full."""
    width, classes = 10_048, 10_007
    sample = torch.linspace(0, 900, 5 * width, device=kind).view(5, -1).cos() * 8
    other, scale = sample.roll(7, 1) * 0.5, torch.linspace(-1, 3, 5, device=kind)
    sample[:, 11::13] = -30.0
    for dtype in FUSED:
        x, y = sample.to(dtype), other.to(dtype)
        excluded = x.clone()
        excluded[:, ::7] = -torch.inf
        eps = 1e-5 + 2 * torch.finfo(dtype).eps
        shift = found.row_lse(excluded, 1.5)
        torch.testing.assert_close(shift.double(), lse_formula(excluded.double(), 1.5), rtol=1e-5, atol=1e-5)
        expected = exp_formula(excluded.double(), shift.double(), scale.double(), 1.5)
        spread = found.scaled_exp_(excluded, shift, scale, 1.5)
        torch.testing.assert_close(spread.double(), expected, rtol=eps, atol=1e-7)
        slopes, exact = y.clone(), y.double()
        values = found.weighted_kl_(x, slopes, scale, classes)
        expected = kl_formula(x.double(), exact, scale.double(), classes)
        torch.testing.assert_close(values.double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(slopes.double(), exact, rtol=eps, atol=1e-6)


# A kernel each: PyTorch's own operations read and write wide copies of the logits about ten times.
kernels = FastKernel("softmax", "triton_kernels", check)


def softmax_kernels(x: Tensor) -> Kernels | None:
    """The kernels for this tensor; None if the formulas must do, as for float64 and while something traces."""
    return kernels(x.device.type) if ordinary(x, x) and x.numel() else None


def softmax_of(x: Tensor) -> Kernels:
    """The functions for this tensor: kernels, or formulas."""
    return softmax_kernels(x) or FORMULAS
