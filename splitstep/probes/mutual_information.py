"""Estimators of mutual information from samples, in nats, each with a standard error.

T is a function of X, so I(X; T) of continuous T is infinite. With noise of size sigma it is finite: I(X; T + sigma Z) =
h(T + sigma Z) - h(sigma Z), and T + sigma Z is a mixture of Gaussians around the samples. Everything works on samples
[.., N, k], a set of N points for each leading index, and costs N^2.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import torch
from torch import Tensor

NEIGHBOURS, GROUPS, DRAWS, SEED = 3, 10, 8, 15


class Estimate(NamedTuple):
    """A number and its standard error: an interval of 95% is value +- 1.96 error, without the estimator's bias."""

    value: Tensor
    error: Tensor


def squared_distances(u: Tensor, t: Tensor) -> Tensor:
    """|u_i - t_j|^2, [.., N, M]."""
    return torch.cdist(u, t, compute_mode="donot_use_mm_for_euclid_dist").square()


def by_influence(terms: Tensor, influence: Tensor) -> Estimate:
    """The mean of the terms; the infinitesimal jackknife gives its error from the influence of each sample."""
    return Estimate(terms.mean(-1), influence.std(-1) / influence.shape[-1] ** 0.5)


def pairwise_bounds(t: Tensor, sigma: float) -> tuple[Estimate, Estimate]:
    """The lower and upper bound of Kolchinsky and Tracey (2017) on I(X; T + sigma Z), if X is one of these N samples:
    -mean_i log mean_j exp(-|t_i - t_j|^2 / (c sigma^2)) with c = 8 and c = 2. Neither exceeds log N."""
    squares = squared_distances(t, t)
    lower, upper = (by_kernel(squares / (-c * sigma**2)) for c in (8, 2))
    return lower, upper


def by_kernel(kernel: Tensor) -> Estimate:
    """-mean_i log mean_j exp(kernel_ij)."""
    total = kernel.logsumexp(-1)
    terms = log(kernel.shape[-1]) - total
    return by_influence(terms, terms - shares(kernel, total))


def shares(kernel: Tensor, total: Tensor) -> Tensor:
    """How much each sample contributes to the sums of exp(kernel) over the last dimension, added up over them."""
    return (kernel - total[..., None]).exp_().sum(-2)


def noisy_kernel(t: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """-|t_i + sigma z - t_j|^2 / (2 sigma^2) for some draws of z, [draws, .., N, N], and its diagonal [draws, .., N].
    The draws are the same at each call."""
    generator = torch.Generator().manual_seed(SEED)
    z = torch.randn(DRAWS, *t.shape[-2:], generator=generator, dtype=torch.float64).to(t)
    z = z.view(DRAWS, *[1] * (t.ndim - 2), *t.shape[-2:])
    kernel = squared_distances(t + sigma * z, t.expand(DRAWS, *t.shape)) / (-2 * sigma**2)
    return kernel, kernel.diagonal(dim1=-2, dim2=-1)


def mixture_information(t: Tensor, sigma: float) -> Estimate:
    """I(X; T + sigma Z) by Monte Carlo: the mean of log p(u | t_i) - log p(u) at u = t_i + sigma z, where p(u) is the
    mixture around the other samples. Leaving t_i out makes it an estimate for all X, not only for these N."""
    kernel, own = noisy_kernel(t, sigma)
    kernel = kernel.masked_fill(torch.eye(t.shape[-2], dtype=torch.bool, device=t.device), -torch.inf)
    total = kernel.logsumexp(-1)
    terms = (own - total + log(t.shape[-2] - 1)).mean(0)
    return by_influence(terms, terms - shares(kernel, total).mean(0))


def mixture_label_information(t: Tensor, labels: Tensor, sigma: float) -> Estimate:
    """I(Y; T + sigma Z) by Monte Carlo, if X is one of these N samples: the mean of log p(u | y_i) - log p(u) at
    u = t_i + sigma z, which is between 0 and the entropy of Y. Few samples of a label look too far apart from the
    others; without t_i itself they would look too near, and by more."""
    kernel, _ = noisy_kernel(t, sigma)
    same = labels[:, None] == labels
    within = kernel.masked_fill(~same, -torch.inf)
    scale = torch.log(len(labels) / same.sum(-1).to(t))
    inner, total = within.logsumexp(-1), kernel.logsumexp(-1)
    terms = (inner - total + scale).mean(0)
    return by_influence(terms, terms + (shares(within, inner) - shares(kernel, total)).mean(0))


def neighbour_label_information(t: Tensor, labels: Tensor) -> Estimate:
    """I(Y; T) by Ross (2014): psi(N) + mean(psi(k) - psi(N_y) - psi(m)), where m counts the samples nearer than the
    k-th neighbour of the same label, k = 3. The error is a jackknife over ten groups of samples."""
    squares = squared_distances(t, t)
    number = torch.arange(len(labels), device=t.device) % GROUPS
    everyone = torch.ones_like(number, dtype=torch.bool)
    kept = [everyone, *(number != group for group in range(min(GROUPS, len(labels))))]
    value, *others = (by_neighbours(squares, labels, one) for one in kept)
    without = torch.stack(others)
    spread = (without - without.mean(0)).square().sum(0) * (len(others) - 1) / len(others)
    return Estimate(value, spread.sqrt())


def by_neighbours(squares: Tensor, labels: Tensor, kept: Tensor) -> Tensor:
    """Ross's estimate from some of the samples, without labels that only one of these has."""
    same = (labels[:, None] == labels) & kept
    used = kept & (same.sum(-1) > 1)
    same, count = same & used, same.sum(-1)
    others = used & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    k = (count - 1).clamp(1, NEIGHBOURS)
    near = squares.masked_fill(~(same & others), torch.inf).topk(min(NEIGHBOURS, len(labels)), -1, largest=False).values
    radius = near.gather(-1, (k - 1)[:, None].expand(*near.shape[:-1], 1))
    nearer = ((squares < radius) & others).sum(-1) + 1
    psi = torch.special.digamma
    terms = psi(k.to(squares)) - psi(count.clamp(min=1).to(squares)) - psi(nearer.to(squares))
    total = used.sum()
    return psi(total.to(squares)) + torch.where(used, terms, 0).sum(-1) / total
