"""Weights as functions of depth: interpolated to another number of layers, and how rough they are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...models import SplitstepModel
from ...models.base import all_stacks

M = TypeVar("M", bound=SplitstepModel)
Matrices = list[list[Tensor]]  # of each layer


def interpolated(model: M, layers: int) -> M:
    """The network with so many layers over the same time, its weights interpolated linearly in t.

    A layer's weights are those at its middle; before the first middle and after the last they are constant.
    """
    [old] = all_stacks(model)
    step = len(old.layers) * old.step / layers
    changes = {"layers": layers, "step": step, "matched": None, "ffn": common_width(model)}
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        new: Any = type(model)(type(model.config)(**{**model.config.to_dict(), **changes}))
    new.to(device=model.device, dtype=model.dtype).train(model.training)
    new.load_state_dict({k: w for k, w in model.state_dict().items() if ".stack.layers." not in k}, strict=False)
    [stack] = all_stacks(new)
    states = [layer.state_dict() for layer in old.layers]
    for i, layer in enumerate(stack.layers):
        layer.load_state_dict({name: at(i, layers, [s[name] for s in states]) for name in states[0]})
    return new


def at(i: int, layers: int, values: list[Tensor]) -> Tensor:
    """The value in the middle of layer i of `layers`, between those in the middles of the old layers."""
    place = min(max((i + 0.5) / layers * len(values) - 0.5, 0.0), len(values) - 1.0)
    low = min(int(place), len(values) - 2) if len(values) > 1 else 0
    high = min(low + 1, len(values) - 1)
    return torch.lerp(values[low], values[high], place - low)


def common_width(model: SplitstepModel) -> int | list[int]:
    """The width of F in all layers; refused if they differ."""
    [rows] = model.config.ffn_rows()
    if any(row != rows[0] or len(set(row)) > 1 for row in rows):
        raise ValueError(f"Layers of unequal widths ffn={rows} have no weights between them: use equal widths.")
    return rows[0][0] if rows[0] else model.config.ffn


def matrices(model: SplitstepModel) -> Matrices:
    """The matrices of each layer."""
    [stack] = all_stacks(model)
    return [
        [module.weight.detach().double() for module in layer.modules() if isinstance(module, nn.Linear)]
        for layer in stack.layers
    ]


def roughness(layers: Matrices) -> float:
    """The root of sum |W_(l+1) - W_l|^2 / sum |W_l|^2 over neighbouring layers: about 1.41 if layers are independent,
    and proportional to the step if the weights are a smooth function of t."""
    steps = [(a - b).square().sum() for below, above in pairwise(layers) for a, b in zip(above, below, strict=True)]
    sizes = [w.square().sum() for layer in layers[:-1] for w in layer]
    return float((sum(steps) / sum(sizes)) ** 0.5)


def learnt(layers: Matrices, start: Matrices) -> Matrices:
    """What training added to the matrices of each layer."""
    return [[w - v for w, v in zip(one, other, strict=True)] for one, other in zip(layers, start, strict=True)]
