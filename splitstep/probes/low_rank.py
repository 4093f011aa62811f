"""The leading singular values of a linear map that is known only by its products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .spectra import singular_values

SETTLED = 1e-3  # how much a round may change a value, if it is to be the last
Product = Callable[[Tensor], Tensor]  # of vectors in columns: [n, k] -> [m, k]


class Leading(NamedTuple):
    """J v_i = s_i u_i for the leading i: u [m, k], s [k], v [n, k], largest first."""

    u: Tensor
    s: Tensor
    v: Tensor


def leading_singular(
    jvp: Product, vjp: Product, width: int, count: int, extra: int = 10, rounds: int = 8, like: Tensor | None = None
) -> Leading:
    """The `count` leading singular values and vectors of J by randomised subspace iteration (Halko et al., 2011).

    jvp(V) = J V and vjp(U) = J^T U for vectors in columns; J has `width` columns. A random [width, count + extra] is
    multiplied by J and J^T in turn and made orthonormal in between, so that Q spans more and more of what J stretches
    most. The singular values of Q^T J approach those of J from below. It ends after `rounds` products with each, or
    when a round changes no value by more than 1/1000. `like` gives type and device.
    """
    like = torch.empty(0) if like is None else like
    drawn = torch.randn(width, min(count + extra, width), generator=torch.Generator().manual_seed(15))
    q = orthonormal(jvp(drawn.to(like)))
    basis, r = torch.linalg.qr(vjp(q).double())  # J^T Q = basis r
    for _ in range(rounds - 1):
        before, q = singular_values(r)[:count], orthonormal(jvp(basis.to(like)))
        basis, r = torch.linalg.qr(vjp(q).double())
        if settled(before, singular_values(r)[:count]):
            break
    if not bool(r.isfinite().all()):
        return Leading(*(torch.full_like(one, torch.nan) for one in (q[:, :count], r[0, :count], basis[:, :count])))
    v, s, inner = torch.linalg.svd(r)
    return Leading((q.double() @ inner.mT)[:, :count], s[:count], (basis @ v)[:, :count])


def settled(before: Tensor, after: Tensor) -> bool:
    """Whether no value has changed by more than 1/1000."""
    return bool(((after - before).abs() <= SETTLED * after).all())


def orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis of the columns' span."""
    return torch.linalg.qr(columns.double()).Q.to(columns.dtype)
