"""States, token weights and projections of several key layers, stacked: one operator for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..geometry import token_weights
from ..layers import teacher_layer
from ..records import Shown, wide

Layers = tuple[int, ...]


class States(NamedTuple):
    """The states of both models at K of the student's layers and the teacher's for them, [K, B, T, d] each."""

    teacher: Tensor
    student: Tensor


def theirs(layers: Layers, teacher: Shown, student: Shown) -> list[int]:
    """The teacher's layers for some of the student's."""
    return [teacher_layer(layer, student.layers, teacher.layers) for layer in layers]


def states_at(layers: Layers, teacher: Shown, student: Shown) -> States:
    """The states at these layers of the student, in float32 or better."""

    def make() -> States:
        known = [teacher.states[layer] for layer in theirs(layers, teacher, student)]
        return States(wide(torch.stack(known)), wide(torch.stack([student.states[layer] for layer in layers])))

    return student.once((states_at, teacher, layers), make)


def weights_at(layers: Layers, teacher: Shown, student: Shown) -> Tensor:
    """MTA's token weights at the teacher's layers for these of the student, [K, B, T], 0 at padding."""

    def one(layer: int) -> Tensor:
        known = teacher.weights.get(layer)
        return token_weights(teacher.states[layer], teacher.real) if known is None else known

    def make() -> Tensor:
        found = torch.stack([one(layer) for layer in theirs(layers, teacher, student)])
        return wide(found).masked_fill(~teacher.real, 0).detach()

    return student.once((weights_at, teacher, layers), make)


def projected_at(layers: Sequence[int], projectors: Mapping[str, nn.Module], x: Tensor) -> Tensor:
    """The student's states [K, B, T, d] in the teacher's width, each by its layer's projector, in the projectors'
    precision or that of autocast."""
    weights = torch.stack([matrix(projectors[f"layer{layer}"]) for layer in layers])
    return (x.flatten(1, 2).to(weights.dtype) @ weights.mT).unflatten(1, x.shape[1:3])


def matrix(module: nn.Module) -> Tensor:
    assert isinstance(module, nn.Linear)
    return module.weight
