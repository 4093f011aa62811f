"""Twins in depth: the same network on a finer or a coarser grid of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import torch

from .base import SplitstepModel, all_stacks
from .config import SplitstepConfig
from .cost import with_depth, with_widths

M = TypeVar("M", bound=SplitstepModel)
Sources = Callable[[int], Sequence[int]]  # the old layers that a new layer is made of


def refined(model: M, times: int = 2) -> M:
    """The network of `times` the depth: each layer is repeated, at step / times."""
    return regridded(model, Fraction(checked(times)), lambda layer: [layer // times])


def coarsened(model: M, times: int = 2) -> M:
    """The network of 1 / times the depth: a layer has the mean weights of `times` neighbours, at step * times."""
    return regridded(model, Fraction(1, checked(times)), lambda layer: range(layer * times, (layer + 1) * times))


def checked(times: int) -> int:
    if times < 1:
        raise ValueError(f"times={times} must be a positive number.")
    return times


def regridded(model: M, ratio: Fraction, sources: Sources) -> M:
    """A model of the same kind with `ratio` times the layers over the same time."""
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        new: Any = type(model)(on_grid(model.config, ratio, sources))
    new.to(device=model.device, dtype=model.dtype).train(model.training)
    new.load_state_dict({k: w for k, w in model.state_dict().items() if ".stack.layers." not in k}, strict=False)
    for old, stack in zip(all_stacks(model), all_stacks(new), strict=True):
        for i, layer in enumerate(stack.layers):
            states = [old.layers[j].state_dict() for j in sources(i)]
            layer.load_state_dict({name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]})
    return new


def on_grid(config: SplitstepConfig, ratio: Fraction, sources: Sources) -> SplitstepConfig:
    """The config with `ratio` times the layers, each as wide as those that it is made of."""
    widths: list[int] = []
    for (scheme, layers), rows in zip(config.stacks(), config.ffn_rows(), strict=True):
        if scheme.projections or scheme.replaces:
            raise ValueError(
                f"A part of {str(scheme)!r} projects or replaces the state, so its effect depends on the depth: use a "
                "scheme whose parts all add, such as A F."
            )
        if (ratio * layers).denominator > 1:
            raise ValueError(f"{layers} layers cannot be joined by {ratio.denominator}: use a divisor of {layers}.")
        for joined in ([rows[j] for j in sources(layer)] for layer in range(int(ratio * layers))):
            if any(row != joined[0] for row in joined):
                raise ValueError(f"Layers of unequal widths ffn={joined} have no mean: join layers of equal width.")
            widths += joined[0]
    new = with_widths(with_depth(config, ratio), widths)
    new.matched = None
    return new
