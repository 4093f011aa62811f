"""The leading singular values of a linear map that is known only by its products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Product = Callable[[Tensor], Tensor]  # of vectors in columns: [n, k] -> [m, k]


class Leading(NamedTuple):
    """J v_i = s_i u_i for the leading i: u [m, k], s [k], v [n, k], largest first."""

    u: Tensor
    s: Tensor
    v: Tensor


def leading_singular(
    jvp: Product, vjp: Product, width: int, count: int, extra: int = 6, rounds: int = 2, like: Tensor | None = None
) -> Leading:
    """The `count` leading singular values and vectors of J by randomised subspace iteration (Halko et al., 2011).

    jvp(V) = J V and vjp(U) = J^T U for vectors in columns; J has `width` columns. A random [width, count + extra] is
    multiplied by J and J^T in turn, `rounds` times each and made orthonormal in between; then Q spans nearly what J
    stretches most, and J is small on what is left: the singular values of Q^T J are those of J, from below. In all
    2 * rounds + 2 products. `like` gives type and device.
    """
    like = torch.empty(0) if like is None else like
    columns = min(count + extra, width)
    drawn = torch.randn(width, columns, generator=torch.Generator().manual_seed(15), dtype=torch.float64)
    q = orthonormal(jvp(drawn.to(like)))
    for _ in range(rounds):
        q = orthonormal(jvp(orthonormal(vjp(q)).to(like)))
    small = vjp(q.to(like)).double()
    if not bool(small.isfinite().all()):
        return Leading(*(torch.full_like(one, torch.nan) for one in (q[:, :count], small[0, :count], small[:, :count])))
    v, s, inner = torch.linalg.svd(small, full_matrices=False)  # J^T Q = V S inner
    return Leading((q.double() @ inner.mT)[:, :count], s[:count], v[:, :count])


def orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis of the columns' span."""
    return torch.linalg.qr(columns.double()).Q.to(columns.dtype)
