"""Key layers: where the states of student and teacher are compared. Layer l is the state after l layers, l = 1 .. N.

States, token weights and projections of several key layers are stacked: one operator serves all of them.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..flows.keys import Key
from .geometry import token_weights
from .records import Outputs, Shapes, wide

Layers = tuple[int, ...]
WORDS, PHRASES = (1 / 2,), (3 / 4, 1.0)
"""Depths of MTA's key layers. Its GPT-2 of 12 layers has words at 6 and phrases at 9 and 12; the fractions are ours."""


def key_layers(given: Layers, depths: tuple[float, ...], layers: int) -> Layers:
    """The layers of the student that were asked for, else those at these fractions of the depth, rounded up, each once;
    they must exist."""
    assert layers > 0, "the number of layers is not known"
    wrong = [layer for layer in given if not 1 <= layer <= layers]
    if wrong:
        raise ValueError(f"The student has no layer {wrong[0]}: name layers from 1 to {layers}.")
    return given or tuple(dict.fromkeys(ceil(depth * layers) for depth in depths))


def teacher_layer(layer: int, student_layers: int, teacher_layers: int) -> int:
    """The teacher's layer for one of the student's: floor(l N_T / N_S), which is MTA's map."""
    found = layer * teacher_layers // student_layers
    if found < 1:
        raise ValueError(
            f"Layer {layer} of the student's {student_layers} has no match among the teacher's {teacher_layers}: "
            f"name a layer from {ceil(student_layers / teacher_layers)} to {student_layers}."
        )
    return found


def projector(shapes: Shapes, seed: torch.Generator) -> nn.Linear:
    """A linear map from the student's width to the teacher's, without bias, that starts orthogonal."""
    made = nn.Linear(shapes.student.width, shapes.teacher.width, bias=False)
    nn.init.orthogonal_(made.weight, generator=seed)
    return made


class States(NamedTuple):
    """The states of both models at K of the student's layers and the teacher's for them, [K, B, T, d] each."""

    teacher: Tensor
    student: Tensor


def theirs(layers: Layers, student_layers: int, teacher_layers: int) -> list[int]:
    """The teacher's layers for some of the student's."""
    return [teacher_layer(layer, student_layers, teacher_layers) for layer in layers]


def states_at(layers: Layers, teacher: Outputs, student: Outputs) -> States:
    """The states at these layers of the student, in float32 or better."""

    def make() -> States:
        known = [teacher[Key("states", layer)] for layer in theirs(layers, student.layers, teacher.layers)]
        return States(wide(torch.stack(known)), wide(torch.stack([student[Key("states", layer)] for layer in layers])))

    return student.once((states_at, teacher, layers), make)


def weights_at(layers: Layers, teacher: Outputs, student: Outputs) -> Tensor:
    """MTA's token weights at the teacher's layers for these of the student, [K, B, T], 0 at padding."""

    def one(layer: int) -> Tensor:
        known = teacher.shown.get(Key("weights", layer))
        return token_weights(teacher[Key("states", layer)], teacher.real) if known is None else known

    def make() -> Tensor:
        found = torch.stack([one(layer) for layer in theirs(layers, student.layers, teacher.layers)])
        return wide(found).masked_fill(~teacher.real, 0).detach()

    return student.once((weights_at, teacher, layers), make)


def projected_at(layers: Layers, projectors: Mapping[str, nn.Module], x: Tensor) -> Tensor:
    """The student's states [K, B, T, d] in the teacher's width, each by its layer's projector, in the projectors'
    precision or that of autocast."""
    weights = torch.stack([projectors[f"layer{layer}"].get_parameter("weight") for layer in layers])
    return (x.flatten(1, 2).to(weights.dtype) @ weights.mT).unflatten(1, x.shape[1:3])
