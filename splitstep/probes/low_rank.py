"""The leading singular values of a linear map that is known only by its products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

SETTLED = 1e-2  # how much a round may change a value, if it is to be the last: what is missing then is less
Product = Callable[[Tensor], Tensor]  # of vectors in columns: [n, k] -> [m, k]


class Leading(NamedTuple):
    """J v_i = s_i u_i for the leading i: u [m, k], s [k], v [n, k], largest first."""

    u: Tensor
    s: Tensor
    v: Tensor


def leading_singular(
    jvp: Product, vjp: Product, width: int, count: int, extra: int = 2, rounds: int = 12, like: Tensor | None = None
) -> Leading:
    """The `count` leading singular values and vectors of J by randomised block Krylov iteration
    (Musco and Musco, 2015).

    jvp(V) = J V and vjp(U) = J^T U for vectors in columns; J has `width` columns. A random block [width, count + extra]
    is multiplied by J and J^T in turn, and every block that comes up is kept: V has them all as orthonormal columns.
    The singular values of J V approach those of J from below, much sooner than those of the last block alone. It ends
    after `rounds` products with J, or when a round changes no value by more than 1/100. `like` gives type and device.
    """
    like = torch.empty(0) if like is None else like
    drawn = torch.randn(width, min(count + extra, width), generator=torch.Generator().manual_seed(15))
    v = torch.linalg.qr(drawn.to(like).double()).Q
    basis, images = v, jvp(v.to(like)).double()
    before = singular_from_gram(images)[:count]
    for _ in range(rounds - 1):
        v = new_directions(vjp(orthonormal(images[:, -v.shape[1] :]).to(like)).double(), basis)
        if not v.shape[1]:
            break  # the basis is everything
        basis, images = torch.cat((basis, v), 1), torch.cat((images, jvp(v.to(like)).double()), 1)
        after = singular_from_gram(images)[:count]
        if settled(before, after):
            break
        before = after
    if not bool(images.isfinite().all()):
        return Leading(*(torch.full_like(one, torch.nan) for one in (images[:, :count], before, basis[:, :count])))
    u, s, inner = torch.linalg.svd(images, full_matrices=False)
    return Leading(u[:, :count], s[:count], basis @ inner[:count].mT)


def new_directions(columns: Tensor, basis: Tensor) -> Tensor:
    """Orthonormal columns at right angles to a basis, as many as there is room for. Twice is enough."""
    room = min(columns.shape[1], len(basis) - basis.shape[1])
    for _ in range(2):
        columns = orthonormal(columns[:, :room] - basis @ (basis.mT @ columns[:, :room]))
    return columns


def singular_from_gram(matrix: Tensor) -> Tensor:
    """The singular values of a tall matrix, largest first, from that times its transpose: good to eight digits."""
    gram = matrix.mT @ matrix
    if not bool(gram.isfinite().all()):
        return torch.full_like(gram[0], torch.nan)
    return torch.linalg.eigvalsh(gram).flip(-1).clamp(min=0).sqrt()


def settled(before: Tensor, after: Tensor) -> bool:
    """Whether no value has changed by more than 1/100."""
    return bool(((after - before).abs() <= SETTLED * after).all())


def orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis of the columns' span."""
    return torch.linalg.qr(columns).Q
