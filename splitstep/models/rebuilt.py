"""The same weights in another network: under another structure, or on a finer or a coarser grid of layers."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..scheme import Scheme
from ..schemes import scheme as scheme_of
from ..shape import feed_forwards
from ..stack import Stack
from .base import SplitstepModel, all_stacks
from .config import SplitstepConfig
from .cost import with_depth, with_widths

M = TypeVar("M", bound=SplitstepModel)
Weights = Mapping[str, str]  # whose weights a name of the new scheme gets, by name in the old one
State = Mapping[str, Tensor]
Sources = Callable[[int], Sequence[int]]  # the old layers that a new layer is made of


def rebuilt(model: M, config: SplitstepConfig, weights_of: Callable[[Stack, nn.Module, int], State]) -> M:
    """A model of the same kind, mode, type and place; what is not in its layers has the same weights. `weights_of` says
    what a layer gets, of the old stack, the new layer and its number."""
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        new: Any = type(model)(config)
    new.to(device=model.device, dtype=model.dtype).train(model.training)
    outer = {name: w for name, w in model.state_dict().items() if ".stack.layers." not in name}
    new.load_state_dict({name: w for name, w in outer.items() if name in new.state_dict()}, strict=False)
    for old, stack in zip(all_stacks(model), all_stacks(new), strict=True):
        for i, layer in enumerate(stack.layers):
            layer.load_state_dict(weights_of(old, layer, i))
    return new


def replayed(
    model: M,
    scheme: str | Scheme | None = None,
    norm: str | None = None,
    substeps: int | None = None,
    step: float | None = None,
    weights: Weights | None = None,
) -> M:
    """A model of the same kind with the same weights, and with another structure; what is not given stays.

    `scheme` is made of the model's own fields: "=A =F" has no residuals, "A+F @rk4" is another integrator.
    `norm="none"` leaves out every norm. `weights` says whose weights a field gets that the model does not have:
    {"F0": "F", "F1": "F"} replays a network with F under "F0/2 A F1/2". A structure that needs other weights than the
    model has is refused.
    """
    config, moved = model.config, weights or {}
    if norm not in (None, "none", config.norm):
        raise ValueError(
            f"norm={norm!r}: the weights are those of norm={config.norm!r}; they can be replayed with it or with "
            "norm='none'."
        )
    given = {"norm": norm, "substeps": substeps, "step": step}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if scheme is not None:
        changes |= with_names(config, scheme_of(scheme), moved)
    new = type(config)(**{**config.to_dict(), **changes})
    return rebuilt(model, new, lambda old, layer, i: renamed(layer.state_dict(), old.layers[i].state_dict(), moved))


def with_names(config: SplitstepConfig, new: Scheme, weights: Weights) -> dict[str, Any]:
    """What another scheme changes: feed-forward widths and activations move to the fields' new names."""
    check_names(config.scheme, new, weights)
    changes = {"scheme": str(new), "ffn": moved_widths(config, new, weights), "matched": None}
    if isinstance(config.activation, dict):
        changes["activation"] = {name: config.activation[weights.get(name, name)] for name in feed_forwards(new)}
    return changes


def check_names(old: Scheme, new: Scheme, weights: Weights) -> None:
    """Refuse a scheme with a field or a projection that has no weights."""
    have, need = {*old.fields, *old.projections}, (*new.fields, *new.projections)
    for name in need:
        source = weights.get(name, name)
        if source not in have:
            like = sorted(one for one in have if one[0] == name[0])
            hint = f", or say whose weights it gets: weights={{{name!r}: {like[0]!r}}}" if like else ""
            raise ValueError(
                f"The scheme {str(new)!r} needs weights for {source}, and this network, {str(old)!r}, has "
                f"{', '.join(sorted(have))}: use a scheme of these{hint}."
            )


def moved_widths(config: SplitstepConfig, new: Scheme, weights: Weights) -> int | list[int]:
    """The feed-forward widths, one for each field of the new scheme if the old ones are listed."""
    if not isinstance(config.ffn, list):
        return config.ffn
    found: list[int] = []
    for (old, _), rows in zip(config.stacks(), config.ffn_rows(), strict=True):
        names = feed_forwards(old)
        found += [row[names.index(weights.get(name, name))] for row in rows for name in feed_forwards(new)]
    return found


def renamed(needed: State, have: State, weights: Weights) -> State:
    """The weights of a new layer, from the old one. A network whose norms are projections has none in its fields."""
    sources: dict[str, str] = {}
    for name in needed:
        field, _, rest = name.partition(".")
        sources[name] = f"{weights.get(field, field)}.{rest}"
        if sources[name] not in have:
            raise ValueError(
                f"The new structure needs the weight {sources[name]}, which this network does not have: norms inside "
                "fields and norms as projections (N, M, P) cannot replace each other; use norm='none', or a "
                "scheme with the same projections."
            )
    return {name: have[source] for name, source in sources.items()}


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

    def means(old: Stack, layer: nn.Module, i: int) -> State:
        states = [old.layers[j].state_dict() for j in sources(i)]
        return {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}

    return rebuilt(model, on_grid(model.config, ratio, sources), means)


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
