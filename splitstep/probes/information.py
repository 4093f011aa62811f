"""The information plane: what a layer knows of the input, and what of the answer."""

from __future__ import annotations

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
from .mutual_information import (
    SEED,
    Estimate,
    mixture_information,
    mixture_label_information,
    neighbour_label_information,
    pairwise_bounds,
)
from .probe import Figures, LayerStates, Pass, numbers, wide
from .similarity import chosen_tokens, pooled

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
        if labels is None or labels.is_floating_point() or self.has_no_labels(passed):
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

    def has_no_labels(self, passed: Pass) -> bool:
        """Whether the labels belong to another stack: the decoder's, and this is the encoder."""
        return isinstance(passed.model, TranslationModel) and not self.decodes


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


def repeated(labels: Tensor) -> Tensor:
    """Which samples share their label with another one."""
    return (labels[:, None] == labels).sum(-1) > 1


def input_estimates(t: Tensor) -> Iterator[tuple[str, Estimate]]:
    """Those of I(X; T + sigma Z) for samples [.., N, k]."""
    for sigma in SIGMAS:
        lower, upper = pairwise_bounds(t, sigma)
        yield f"I(X;T) lower {sigma:g}", lower
        yield f"I(X;T) upper {sigma:g}", upper
        yield f"I(X;T) mixture {sigma:g}", mixture_information(t, sigma)


def label_estimates(t: Tensor, labels: Tensor | None) -> Iterator[tuple[str, Estimate]]:
    """Those of I(Y; T) for samples [.., N, k] with labels [N]; none if no two share a label."""
    if labels is None or int((used := repeated(labels)).sum()) < 2:
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
