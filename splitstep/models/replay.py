"""The same weights under another structure: another scheme, no norms, sub-steps, another step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..scheme import Scheme
from ..schemes import scheme as scheme_of
from ..shape import feed_forwards
from ..stack import Stack
from .base import SplitstepModel, all_stacks
from .config import SplitstepConfig

M = TypeVar("M", bound=SplitstepModel)
Weights = Mapping[str, str]  # whose weights a name of the new scheme gets, by name in the old one


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
    check_norm(model.config, norm)
    config = restructured(model.config, scheme, norm, substeps, step, weights or {})
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        new: Any = type(model)(config)
    new.to(device=model.device, dtype=model.dtype).train(model.training)
    outer = {name: w for name, w in model.state_dict().items() if ".stack.layers." not in name}
    new.load_state_dict({name: w for name, w in outer.items() if name in new.state_dict()}, strict=False)
    for old, stack in zip(all_stacks(model), all_stacks(new), strict=True):
        copy_layers(old, stack, weights or {})
    return new


def check_norm(config: SplitstepConfig, norm: str | None) -> None:
    if norm not in (None, "none", config.norm):
        raise ValueError(
            f"norm={norm!r}: the weights are those of norm={config.norm!r}; they can be replayed with it or with "
            "norm='none'."
        )


def restructured(
    config: SplitstepConfig,
    scheme: str | Scheme | None,
    norm: str | None,
    substeps: int | None,
    step: float | None,
    weights: Weights,
) -> SplitstepConfig:
    """The config with another structure, its feed-forward widths and activations moved to the fields' new names."""
    given = {"norm": norm, "substeps": substeps, "step": step}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if scheme is not None:
        new = scheme_of(scheme)
        check_names(scheme_of(config.scheme), new, weights)
        changes |= {"scheme": str(new), "ffn": moved_widths(config, new, weights), "matched": None}
        if isinstance(config.activation, dict):
            changes["activation"] = {name: config.activation[weights.get(name, name)] for name in feed_forwards(new)}
    return type(config)(**{**config.to_dict(), **changes})


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


def copy_layers(old: Stack, new: Stack, weights: Weights) -> None:
    for before, layer in zip(old.layers, new.layers, strict=True):
        have = before.state_dict()
        layer.load_state_dict(dict(renamed(layer.state_dict(), have, weights)))


def renamed(needed: Mapping[str, Tensor], have: Mapping[str, Tensor], weights: Weights) -> Iterator[tuple[str, Tensor]]:
    """Each weight of a new layer, from the old one. A network whose norms are projections has none in its fields."""
    for name in needed:
        field, _, rest = name.partition(".")
        source = f"{weights.get(field, field)}.{rest}"
        if source not in have:
            raise ValueError(
                f"The new structure needs the weight {source}, which this network does not have: norms inside of "
                "fields and norms as projections (N, M, P) cannot stand in for each other; use norm='none', or a "
                "scheme with the same projections."
            )
        yield name, have[source]
