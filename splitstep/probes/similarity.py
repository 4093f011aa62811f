"""How alike the states of two networks are. Rows are the same examples or tokens in both."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .probe import wide


def linear_cka(x: Tensor, y: Tensor, debiased: bool = False) -> Tensor:
    """Centred kernel alignment with a linear kernel of states [.., N, p] and [.., N, q], between 0 and 1.

    |Y^T X|^2 / (|X^T X| |Y^T Y|) with centred columns (Kornblith et al., 2019). It is the same after any rotation and
    scaling of either network's coordinates. With few rows it is too large: two independent Gaussians have about p / N.
    The debiased form (Nguyen et al., 2021) uses the unbiased HSIC of Song et al. (2012), and may be below 0.
    """
    if x.shape[-2] != y.shape[-2]:
        raise ValueError(f"CKA compares the same rows of two networks, and there are {x.shape[-2]} and {y.shape[-2]}")
    x, y = (centred(v) for v in (x, y))
    if debiased:
        return debiased_hsic(x, y) / (debiased_hsic(x, x) * debiased_hsic(y, y)).sqrt()
    cross, own_x, own_y = (squared_norm(u, v) for u, v in ((x, y), (x, x), (y, y)))
    return cross / (own_x * own_y).sqrt()


def centred(x: Tensor) -> Tensor:
    """Columns without their mean, in a wide type, scaled so that fourth powers stay finite."""
    x = x.to(wide(x))
    x = x - x.mean(-2, keepdim=True)
    return x / x.abs().amax((-2, -1), keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def squared_norm(x: Tensor, y: Tensor) -> Tensor:
    """|Y^T X|^2, which is the sum of products of the two Gram matrices."""
    if x.shape[-1] + y.shape[-1] > 2 * x.shape[-2]:  # fewer rows than columns: the Gram matrices are smaller
        return ((x @ x.mT) * (y @ y.mT)).sum((-2, -1))
    return (y.mT @ x).square().sum((-2, -1))


def debiased_hsic(x: Tensor, y: Tensor) -> Tensor:
    """The unbiased HSIC of linear kernels, K = X X^T and L = Y Y^T with zeros on their diagonals, times n (n - 3):
    tr(K L) + 1^T K 1 1^T L 1 / ((n - 1)(n - 2)) - 2 / (n - 2) 1^T K L 1, in terms of X and Y alone."""
    n = x.shape[-2]
    if n < 4:
        raise ValueError(f"debiased CKA needs at least 4 rows, and there are {n}: leave out debiased=True")
    a, b = x.square().sum(-1), y.square().sum(-1)  # the diagonals
    sums_x, sums_y = x.sum(-2, keepdim=True), y.sum(-2, keepdim=True)
    rows_x, rows_y = (x * sums_x).sum(-1) - a, (y * sums_y).sum(-1) - b
    trace = squared_norm(x, y) - (a * b).sum(-1)
    total = rows_x.sum(-1) * rows_y.sum(-1)
    return trace + total / ((n - 1) * (n - 2)) - 2 / (n - 2) * (rows_x * rows_y).sum(-1)


def mean_cosine(x: Tensor, y: Tensor) -> Tensor:
    """The mean over rows of the cosine between the rows of states [.., N, p]. It compares coordinates one by one, which
    means something for the same weights, or for networks trained from the same start on the same batches."""
    x, y = (v.to(wide(v)) for v in (x, y))
    return cosine_similarity(x, y, dim=-1).mean(-1)
