"""How alike the states of two networks are, or of the layers of one. Rows are the same examples or tokens in both."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .probe import Figures, LayerStates, Pass, numbers, wide
from .states import chosen_tokens


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


@final
class LayerSimilarity(LayerStates):
    """Debiased linear CKA between the states x_l of all pairs of layers l = 0 .. L, over the tokens of `states`.

    The tensor "matrix" [L + 1, L + 1]; "input" and "previous": its numbers for (x_l, x_0) and (x_l, x_{l-1}),
    l = 1 .. L. With fewer than 4 tokens they are not numbers.
    """

    def figures(self, passed: Pass) -> Figures:
        states = torch.stack(self.states(passed)).flatten(1, 2)
        chosen = chosen_tokens(passed.real, passed.x)
        matrix = layer_cka(states[:, chosen])
        return {"matrix": matrix.float(), "input": numbers(matrix[0, 1:]), "previous": numbers(matrix.diagonal(1))}


def layer_cka(x: Tensor) -> Tensor:
    """The debiased linear CKA of all pairs of states [L, N, width], as `similarity.linear_cka` has it, [L, L].

    With the Gram matrices K of centred states, without their diagonals, HSIC(K, M) is proportional to
    tr(K M) + 1^T K 1 1^T M 1 / ((N - 1)(N - 2)) - 2 / (N - 2) 1^T K M 1.
    """
    n, y = x.shape[1], centred(x)
    if n < 4:
        return torch.full((len(x), len(x)), torch.nan, dtype=y.dtype)
    gram = y @ y.mT
    gram = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    rows = gram.sum(-1)
    flat, total = gram.flatten(1), rows.sum(-1)
    hsic = flat @ flat.T + total[:, None] * total / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ rows.T
    own = hsic.diagonal().sqrt()
    return hsic / (own[:, None] * own)
