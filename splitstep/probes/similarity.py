"""How alike two networks are, or the layers of one: their states, rows being the same examples or tokens in both, and
their attention weights [.., queries, keys], each row a distribution."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .probe import Figures, LayerStates, Pass, numbers, wide

TOKENS, SEED = 256, 15
LEAST = 1e-7  # about the least positive number of float16, in which weights are stored


@final
class States(LayerStates):
    """The states at the start of each layer and at the end, as tensors.

    "pooled" [L + 1, B, width]: the mean over the tokens of each example; "tokens" [L + 1, at most 256, width]: a fixed
    choice of tokens, none of them padding. Both are float16, or float32 if a number is too large for that. The choice
    depends on the shape of the batch and on its padding only, so networks that saw the same batch can be compared.
    """

    def figures(self, passed: Pass) -> Figures:
        states = torch.stack(self.states(passed)).float()
        chosen = chosen_tokens(passed.real, states[0])
        return {"pooled": narrow(pooled(states, passed.real)), "tokens": narrow(states.flatten(1, 2)[:, chosen])}


def pooled(x: Tensor, real: Tensor | None) -> Tensor:
    """The mean over the tokens [.., B, T, width] of each example that are not padding."""
    if real is None:
        return x.mean(-2)
    weight = real[..., None]
    return torch.where(weight, x, 0).sum(-2) / weight.sum(-2).clamp(min=1)


def chosen_tokens(real: Tensor | None, x: Tensor, most: int = TOKENS) -> Tensor:
    """The numbers of at most `most` real tokens of a batch [B, T, width], drawn once for all and in order."""
    count = x.shape[0] * x.shape[1]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED)).to(x.device)
    if real is not None:
        order = order[real.flatten()[order]]
    return order[:most].sort().values


def narrow(x: Tensor) -> Tensor:
    """The tensor in float16 if all its numbers fit."""
    half = x.half()
    return half if bool(half.isfinite().all()) else x


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
    """The debiased linear CKA of all pairs of states [L, N, width], as `linear_cka` has it, [L, L].

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


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """sum_j p_j log(p_j / q_j) in nats, of each query. Weights below 1e-7 in q count as 1e-7: stored weights are
    rounded to zero there, where the divergence would be infinite."""
    p, q = distribution(p), distribution(q)
    return (p * (p.clamp(min=LEAST) / q.clamp(min=LEAST)).log()).sum(-1)


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """(KL(p | m) + KL(q | m)) / 2 with m = (p + q) / 2, in nats: between 0 and log 2, of each query."""
    p, q = distribution(p), distribution(q)
    middle = (p + q) / 2
    entropy = torch.special.entr
    return (entropy(middle) - (entropy(p) + entropy(q)) / 2).sum(-1).clamp(min=0)


def attention_cosine(p: Tensor, q: Tensor) -> Tensor:
    """The cosine between the weights of each query."""
    return cosine_similarity(distribution(p), distribution(q), dim=-1)


def distribution(p: Tensor) -> Tensor:
    """Rows in a wide type that sum to one: stored weights are rounded."""
    p = p.to(wide(p))
    return p / p.sum(-1, keepdim=True).clamp(min=LEAST)


COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "kl": kl_divergence,
    "jensen_shannon": jensen_shannon,
    "cosine": attention_cosine,
}


def compare_attention(p: Tensor, q: Tensor, real: Tensor | None = None) -> dict[str, Tensor]:
    """Each comparison of weights [layers, n, heads, T, S], as the probe `attention` keeps them, in the mean over the
    queries that are not padding, `real` [n, T]: [layers, heads]."""
    if p.shape != q.shape:
        raise ValueError(f"attention weights of shapes {list(p.shape)} and {list(q.shape)} cannot be compared")
    found = {name: f(p, q) for name, f in COMPARISONS.items()}  # [layers, n, heads, T]
    if real is None:
        return {name: one.mean((1, 3)) for name, one in found.items()}
    weight = real[:, None, :]
    return {name: torch.where(weight, one, 0).sum((1, 3)) / weight.sum() for name, one in found.items()}
