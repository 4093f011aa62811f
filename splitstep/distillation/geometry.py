"""Weights of tokens, means over spans, and the angles between them.

Everything is computed in float32 or better, under autocast too. For texts of T tokens and S spans this allocates a
few matrices [..., S, T] and [..., S, S]; pairs are formed within a text only. The dimensions before those are texts, or
key layers and texts: a small step on a GPU takes as long as its operators take to start, so there is no loop over
layers.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from .records import wide

SPANS = 1024
"""How many spans of a text a term compares at most, as in SRA: the first ones. So a text has at most 1024² pairs."""
TINY = 1e-12  # a shorter vector has no direction; the limit of `normalize`


def full_precision(x: Tensor) -> torch.autocast:
    """A context without autocast, which would round matrix products."""
    return torch.autocast(x.device.type, enabled=False)


def normalised(x: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """Weights divided by their sum; zeros if the sum is 0."""
    total = x.sum(dim, keepdim=True)
    return x / total.masked_fill(total == 0, 1)


def token_weights(states: Tensor, real: Tensor) -> Tensor:
    """MTA's weights of tokens, [B, T], from a teacher's states H [B, T, d]. They sum to 1 in each text.

        w_t = mean over s of softmax_t(h_s · h_t / sqrt(d)), t != s,   h = H / std(H)

    Ours: the deviation is that of a token's d features, with d - 1 in the denominator; padding is left out on both
    sides; a text of one token has weight 1. This allocates a matrix [B, T, T].
    """
    exact = wide(states)
    spread = exact.std(-1, keepdim=True)
    h = exact / spread.masked_fill(spread == 0, 1)
    itself = torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
    with full_precision(h):
        products = h @ h.mT / h.shape[-1] ** 0.5
    scores = products.masked_fill(itself | ~real[:, None], -torch.inf)
    single = real.sum(1) == 1  # nothing but itself to see
    seen = scores.softmax(-1).masked_fill(~real[..., None] | single[:, None, None], 0)
    return normalised(seen.sum(1)) + (single[:, None] & real)


def attention_masses(attention: Tensor, real: Tensor) -> Tensor:
    """SRA's masses of tokens, [B, T], from the last layer's attention weights [B, heads, T, T]. They sum to 1.

    w_t = sum over heads of a[h, q, t], normalised over t; q is the last real token (ours)
    """
    return masses_of_rows(attention.detach()[torch.arange(len(real), device=real.device), :, last_real(real)], real)


def last_real(real: Tensor) -> Tensor:
    """The last real token of each text, [B]; 0 if there is none."""
    return (real * torch.arange(real.shape[1], device=real.device)).argmax(1)


def masses_of_rows(rows: Tensor, real: Tensor) -> Tensor:
    """SRA's masses, [B, T], from the attention weights of each text's last real token, [B, heads, T]."""
    return normalised(wide(rows).sum(1).masked_fill(~real, 0))


class Shares(NamedTuple):
    """The share that each token has in each span, [..., S, T], and the sums of the spans' weights, [..., S]."""

    shares: Tensor
    masses: Tensor


def shares(weights: Tensor, ranges: Tensor, mask: Tensor) -> Shares:
    """w_t / sum of w_t over the tokens of a span; equal shares if all w_t of the span are 0 (ours)."""
    t = torch.arange(weights.shape[-1], device=weights.device)
    inside = (t >= ranges[..., :1]) & (t < ranges[..., 1:]) & mask[..., None]
    weighted = wide(weights)[..., None, :] * inside
    masses = weighted.sum(-1)
    return Shares(normalised(torch.where(masses[..., None] > 0, weighted, inside)), masses)


def centres(states: Tensor, shares: Tensor) -> Tensor:
    """C_i = sum over t of the share of t in span i times H_t, [..., S, d]."""
    exact = wide(states)
    with full_precision(exact):
        return shares.to(exact) @ exact


def cosines(x: Tensor) -> Tensor:
    """cos(x_i, x_j) of all pairs, [..., S, S]."""
    unit = functional.normalize(wide(x), dim=-1)
    with full_precision(unit):
        return unit @ unit.mT


def structure(teacher: Tensor, student: Tensor, masses: Tensor) -> Tensor:
    """How far the angles between the student's points are from those between the teacher's, [...].

    sum over pairs of w_ij (cos(C^S_i, C^S_j) - cos(C^T_i, C^T_j))², w_ij = w_i w_j, normalised to 1 in each text (ours)
    """
    weights = masses[..., :, None] * masses[..., None, :]
    weights.diagonal(dim1=-2, dim2=-1).zero_()
    total = weights.sum((-2, -1))
    gaps = cosines(student) - cosines(teacher)
    return (weights * gaps.square()).sum((-2, -1)) / total.masked_fill(total == 0, 1)


def angles(x: Tensor, y: Tensor) -> Tensor:
    """1 - cos(x, y) of the last dimension's vectors, in float32 or better."""
    x, y = wide(x), wide(y)
    return 1 - (x * y).sum(-1) / (x.norm(dim=-1).clamp(min=TINY) * y.norm(dim=-1).clamp(min=TINY))
