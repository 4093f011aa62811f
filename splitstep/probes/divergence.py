"""How far apart the attention of two networks is: weights [.., queries, keys], each row a distribution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .probe import wide

LEAST = 1e-7  # about the least positive number of float16, in which weights are stored


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
    return {name: over_queries(f(p, q), real) for name, f in COMPARISONS.items()}


def over_queries(values: Tensor, real: Tensor | None) -> Tensor:
    """The mean of [layers, n, heads, T] over examples and queries."""
    if real is None:
        return values.mean((1, 3))
    weight = real[:, None, :]
    return torch.where(weight, values, 0).sum((1, 3)) / weight.sum()
