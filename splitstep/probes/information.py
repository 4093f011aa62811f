"""The information plane: what a layer knows of the input, and what of the answer.

Estimators of mutual information from samples are in nats, each with a standard error. T is a function of X, so I(X; T)
of continuous T is infinite. With noise of size sigma it is finite: I(X; T + sigma Z) = h(T + sigma Z) - h(sigma Z), and
T + sigma Z is a mixture of Gaussians around the samples. Estimators work on samples [.., N, k], a set of N points for
each leading index, and cost N^2.
"""

from collections.abc import Callable, Iterator
from functools import cache
from math import log
from typing import NamedTuple, final

import torch
from torch import Tensor

from ..fields import Context
from ..integrate import Event
from ..kernels.loss import IGNORED, shifted
from ..models.causal import CausalModel
from ..models.translation import TranslationModel
from .probe import Figures, LayerStates, Pass, numbers, wide
from .similarity import chosen_tokens, pooled

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


DIMENSIONS = 4  # of T: with more, 64 examples say little
SIGMAS = (0.5, 1.0, 2.0)  # of the noise, relative to the spread of T
MOST = 256  # examples or tokens
CLASSES = 8  # of the next token: the commonest ones, and the rest
TRIALS, TRUTH = 4, 2**13  # sets of Gaussian samples that show the bias; draws for what they should give


class Samples(NamedTuple):
    """T of each layer, [L + 1, N, k], and Y [N], if there is one."""

    t: Tensor
    labels: Tensor | None


@final
class Information(LayerStates):
    """I(X; T + sigma Z) and I(Y; T), in nats, for the states at the start of each layer and at the end of the stack.

    T is the mean state of an example's tokens, projected to 4 dimensions by a fixed random projection, centred and
    divided by the root of its mean variance: sigma, which is 0.5, 1 and 2, is relative to the spread of T. Y is the
    label of the example. Where tokens have labels, as in language models, T is the state of a token (a fixed choice of
    256), X is what the token has seen, and Y the token that is to be predicted: one of the 7 commonest, or another one.
    The encoder of a translator has no Y.

    Series are called "I(X;T) mixture 0.5" (the number is sigma) and so on: for X "lower" and "upper", the pairwise
    bounds of Kolchinsky and Tracey for the examples at hand, and "mixture", a Monte-Carlo estimate; for Y "mixture", of
    I(Y; T + sigma Z), and "neighbours", Ross's estimate of I(Y; T) without noise. Each has an " error", its standard
    error, and a " bias": estimate minus truth for as many Gaussian samples of as many dimensions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decodes = False

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        self.decodes = isinstance(event.context, Context) and event.context.memory is not None

    def figures(self, passed: Pass) -> Figures:
        t, labels = self.samples(passed)
        found = {**dict(input_estimates(t)), **dict(label_estimates(t, labels))}
        values = numbers(torch.stack([one for pair in found.values() for one in pair]))
        each = iter(values[i : i + len(t)] for i in range(0, len(values), len(t)))
        out = {f"{name}{what}": next(each) for name in found for what in ("", " error")}
        sizes = [] if labels is None else torch.unique(labels, return_counts=True)[1].tolist()
        counts = tuple(size for size in sizes if size > 1)
        known = input_biases(*t.shape[1:], t.device, t.dtype) | label_biases(counts, t.shape[-1], t.device, t.dtype)
        return out | {f"{name} bias": (known[name],) for name in found}

    def samples(self, passed: Pass) -> Samples:
        """The standardised samples of this pass."""
        states, labels = torch.stack(self.states(passed)), passed.batch.get("labels")
        encodes = isinstance(passed.model, TranslationModel) and not self.decodes  # the labels are the decoder's
        if labels is None or labels.is_floating_point() or encodes:
            labels = None
        if labels is not None and labels.shape == states.shape[1:3]:
            labels = shifted(labels) if isinstance(passed.model, CausalModel) else labels
            chosen = chosen_tokens(labels != IGNORED, states[0], MOST)
            x, labels = states.flatten(1, 2)[:, chosen], coarse(labels.flatten()[chosen])
        else:
            x = pooled(states, passed.real)[:, :MOST]
            labels = None if labels is None or labels.ndim > 1 else labels[:MOST]
        if x.shape[1] < 2:
            raise ValueError(
                f'the probe "information" compares examples, and there is {x.shape[1]}: use a larger train.probe_batch'
            )
        return Samples(standardised(x), labels)


def standardised(x: Tensor) -> Tensor:
    """States [L, N, width] in few dimensions, centred, and divided by the root of the mean variance."""
    x = x.to(wide(x))
    t = x @ projection(x.shape[-1], min(DIMENSIONS, x.shape[-1])).to(x)
    t = t - t.mean(-2, keepdim=True)
    return (t / t.square().mean((-2, -1), keepdim=True).sqrt().clamp(min=1e-30)).float()  # of size 1 now


@cache
def projection(width: int, dimensions: int) -> Tensor:
    """Orthonormal columns [width, dimensions], the same for networks of this width."""
    random = torch.randn(width, dimensions, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    return torch.linalg.qr(random).Q


def coarse(labels: Tensor) -> Tensor:
    """The commonest labels as they are, and one number for all others."""
    values, counts = torch.unique(labels, return_counts=True)
    common = values[counts.argsort(descending=True, stable=True)[: CLASSES - 1]]
    return torch.where(torch.isin(labels, common), labels, -1)


def input_estimates(t: Tensor) -> Iterator[tuple[str, Estimate]]:
    """Those of I(X; T + sigma Z) for samples [.., N, k]."""
    for sigma in SIGMAS:
        lower, upper = pairwise_bounds(t, sigma)
        yield f"I(X;T) lower {sigma:g}", lower
        yield f"I(X;T) upper {sigma:g}", upper
        yield f"I(X;T) mixture {sigma:g}", mixture_information(t, sigma)


def label_estimates(t: Tensor, labels: Tensor | None) -> Iterator[tuple[str, Estimate]]:
    """Those of I(Y; T) for samples [.., N, k] with labels [N]; none if no two share a label."""
    if labels is None or int((used := (labels[:, None] == labels).sum(-1) > 1).sum()) < 2:
        return
    t, labels = t[..., used, :], labels[used]
    yield "I(Y;T) neighbours", neighbour_label_information(t, labels)
    for sigma in SIGMAS:
        yield f"I(Y;T) mixture {sigma:g}", mixture_label_information(t, labels, sigma)


@cache
def input_biases(count: int, dimensions: int, device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """What each estimate of I(X; T + sigma Z) is off by if T ~ N(0, 1), where the truth is k/2 log(1 + 1/sigma^2)."""
    found = input_estimates(drawing(dimensions, device, dtype)(TRIALS, count))
    return {name: float(one.value.mean()) - dimensions / 2 * log(1 + 1 / noise_of(name) ** 2) for name, one in found}


@cache
def label_biases(
    counts: tuple[int, ...], dimensions: int, device: torch.device, dtype: torch.dtype
) -> dict[str, float]:
    """What each estimate of I(Y; T) is off by if the classes, with these numbers of samples, are Gaussians of variance
    1/2 about centres drawn from N(0, 1/2)."""
    if not counts:
        return {}
    draw, sizes = drawing(dimensions, device, dtype), torch.tensor(counts, device=device)
    centres = draw(len(counts)) / 2**0.5
    labels = torch.arange(len(counts), device=device).repeat_interleave(sizes)
    found = label_estimates(centres[labels] + draw(TRIALS, len(labels)) / 2**0.5, labels)
    every = labels.repeat(-(-TRUTH // len(labels)))  # in the proportions of the classes
    share, noise = sizes.to(dtype) / len(labels), draw(len(every))
    return {
        name: float(one.value.mean()) - label_information(centres, share, every, noise, 0.5 + noise_of(name) ** 2)
        for name, one in found
    }


def drawing(dimensions: int, device: torch.device, dtype: torch.dtype) -> Callable[..., Tensor]:
    """A function that draws standard Gaussian samples, others than those of the estimators' noise."""
    generator = torch.Generator().manual_seed(SEED + 1)
    return lambda *shape: torch.randn(*shape, dimensions, generator=generator, dtype=dtype).to(device)


def noise_of(name: str) -> float:
    """The sigma of a series; nearest neighbours need none."""
    return 0.0 if name.endswith("neighbours") else float(name.split()[-1])


def label_information(centres: Tensor, share: Tensor, drawn: Tensor, noise: Tensor, variance: float) -> float:
    """I(Y; T) of Gaussians about these centres, by the mean of log p(t | y) - log p(t) over many draws."""
    t = centres[drawn] + noise * variance**0.5
    kernel = torch.cdist(t, centres).square() / (-2 * variance)
    own = kernel.gather(-1, drawn[:, None])[:, 0]
    return float((own - (kernel + share.log()).logsumexp(-1)).mean())
