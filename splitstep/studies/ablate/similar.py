"""Similarity of two networks, layer by layer and head by head."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .records import Values


def linear_cka(x: Tensor, y: Tensor) -> float:
    x, y = (v.double() - v.double().mean(0) for v in (x, y))
    return float((x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm()))


def cka_layers(x: Tensor, y: Tensor) -> Values:
    """Linear CKA of each layer's states [L, N, width]."""
    return tuple(linear_cka(a, b) for a, b in zip(x, y, strict=True))


def cosine_layers(x: Tensor, y: Tensor) -> Values:
    """The mean cosine of each layer's states [L, N, width]; NaN if the widths differ."""
    if x.shape != y.shape:
        return (float("nan"),) * len(x)
    return tuple(cosine_similarity(x, y, dim=-1).mean(-1).tolist())


def divergence_heads(x: Tensor, y: Tensor) -> Values:
    """The mean Jensen-Shannon divergence of attention weights [L, n, heads, T, S], one after the other by layer and
    head; NaN if the heads differ."""
    if x.shape != y.shape:
        return (float("nan"),) * (x.shape[0] * x.shape[2])
    middle = (x + y) / 2
    js = torch.special.entr(middle) - (torch.special.entr(x) + torch.special.entr(y)) / 2
    return tuple(js.sum(-1).mean((1, 3)).flatten().tolist())
