"""Terms between the states of both models at key layers: FitNets' hints, and MTA's two, weighted by tokens and spans.

Layer l is the state after l layers, l = 1 .. N. MTA has words in the lower key layers and phrases in the higher ones.
States, token weights and projections of several key layers are stacked: one operator serves all of them.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, NamedTuple, final

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ...flows.keys import Key
from ..geometry import SPANS, angles, centres, normalised, shares, structure, token_weights
from ..losses import row_mean
from ..records import Aligned, Outputs, Shapes, SpanKind, wide
from . import Needs, Projectors, Term, check_limit, check_tokens

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


def projector(shapes: Shapes, seed: Generator) -> nn.Linear:
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


def granular_layers(words: Layers, phrases: Layers, depth: int) -> list[tuple[SpanKind, int]]:
    """The student's key layers with their kind of span: those given, else words at N/2, phrases at 3N/4 and N."""
    if words or phrases:
        lower, higher = (key_layers(given, (), depth) for given in (words, phrases))
    else:
        lower, higher = (key_layers((), depths, depth) for depths in (WORDS, PHRASES))
    return [*(("words", layer) for layer in lower), *(("phrases", layer) for layer in higher)]


def needed_at(layers: Layers, shapes: Shapes, weighted: bool) -> Needs:
    """The states at these layers of the student and at the teacher's for them, perhaps with the teacher's weights."""
    kinds = ("states", "weights") if weighted else ("states",)
    known = theirs(layers, shapes.student.layers, shapes.teacher.layers)
    teacher = frozenset(Key(kind, layer) for kind in kinds for layer in known)
    return Needs(teacher, frozenset(Key("states", layer) for layer in layers), same_tokens=True)


class Projected(Term):
    """A term that compares states token by token, the student's in the teacher's width by a linear map for each layer.

    The teacher's layer for layer l of the student is floor(l N_T / N_S).
    """

    weighted: ClassVar[bool] = False
    """Whether the teacher's token weights are read, too."""

    @abstractmethod
    def keys(self, depth: int) -> Layers:
        """The key layers of a student of this depth."""

    def needs(self, shapes: Shapes) -> Needs:
        return needed_at(self.keys(shapes.student.layers), shapes, self.weighted)

    def projectors(self, shapes: Shapes, seed: Generator) -> Projectors:
        """A projector for each key layer. Between equal widths it starts as the identity (ours)."""
        made = {f"layer{layer}": projector(shapes, seed) for layer in self.keys(shapes.student.layers)}
        if shapes.student.width == shapes.teacher.width:
            for one in made.values():
                nn.init.eye_(one.weight)
        return dict(made)


@final
@dataclass(frozen=True)
class HiddenStates(Projected):
    """mean over key layers and tokens of |W_l H^S_t - H^T_t|² / d, d the teacher's width (FitNets' hint, by layer).

    W_l is a linear map from the student's width to the teacher's. Layers are those of the student; the teacher's is
    floor(l N_T / N_S). Ours: MTA's key layers if none are given; the mean over a text's tokens, then over texts.
    """

    layers: tuple[int, ...] = ()

    def keys(self, depth: int) -> Layers:
        return key_layers(self.layers, WORDS + PHRASES, depth)

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        check_tokens(teacher, student, "hidden")
        layers = self.keys(student.layers)
        states = states_at(layers, teacher, student)
        gaps = (wide(projected_at(layers, projectors, states.student)) - states.teacher).square().mean(-1)
        return row_mean((normalised(student.real.to(gaps)) * gaps.mean(0)).sum(1), aligned)


@final
@dataclass(frozen=True)
class WeightedHidden(Projected):
    """sum over key layers of sum over tokens w_t (1 - cos(W_l H^S_t, H^T_t)).

    w_t are the teacher's token weights (`token_weights`), W_l is a linear map from the student's width to the
    teacher's. The key layers are those of `mta.dsa`, and are named in the same way; a layer counts once. The teacher's
    layer is floor(l N_T / N_S).

    Ours: w_t is normalised to 1 over the tokens of a text; the mean over texts; W_l starts orthogonal, or as the
    identity between equal widths.
    """

    weighted = True
    words: tuple[int, ...] = ()
    phrases: tuple[int, ...] = ()

    def keys(self, depth: int) -> Layers:
        return tuple(dict.fromkeys(layer for _, layer in granular_layers(self.words, self.phrases, depth)))

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        check_tokens(teacher, student, "mta.hid")
        layers = self.keys(student.layers)
        states = states_at(layers, teacher, student)
        gaps = angles(projected_at(layers, projectors, states.student), states.teacher)
        weights = normalised(weights_at(layers, teacher, student))
        return row_mean((weights * gaps).sum((0, 2)), aligned)


@final
@dataclass(frozen=True)
class SpanStructure(Term):
    """mean over key layers of sum over pairs of spans w_ij (d(U^S_i, U^S_j) - d(U^T_i, U^T_j))², d = 1 - cos.

    U_i = sum of w_t H_t over span i / sum of w_t, with the teacher's token weights w_t (`token_weights`) on both sides.
    Spans are words in the lower key layers and phrases in the higher ones. `words` and `phrases` name layers of the
    student; if neither is given they are N/2, and 3N/4 and N. The teacher's layer is floor(l N_T / N_S).

    Ours: w_ij = w_i w_j, where w_i is the sum of w_t over span i, normalised to 1 over the pairs i != j of a text; the
    mean over texts, of which one with fewer than two spans adds 0; a text compares its first `spans` spans.
    """

    words: tuple[int, ...] = ()
    phrases: tuple[int, ...] = ()
    spans: int = SPANS

    def __post_init__(self) -> None:
        check_limit(self.spans)

    def needs(self, shapes: Shapes) -> Needs:
        keys = granular_layers(self.words, self.phrases, shapes.student.layers)
        kinds: frozenset[SpanKind] = frozenset(kind for kind, _ in keys)
        states = needed_at(tuple(layer for _, layer in keys), shapes, weighted=True)
        return states | Needs(spans=kinds, limits=frozenset((kind, self.spans) for kind in kinds))

    def __call__(self, teacher: Outputs, student: Outputs, aligned: Aligned, projectors: Projectors) -> Tensor:
        check_tokens(teacher, student, "mta.dsa")
        kinds, layers = zip(*granular_layers(self.words, self.phrases, student.layers), strict=True)
        spans = [aligned.spans[kind].at_most(self.spans) for kind in kinds]
        ranges, mask = stacked([one.teacher for one in spans]), stacked([one.mask for one in spans])
        found = shares(weights_at(layers, teacher, student), ranges, mask)  # the student has the same tokens
        known, own = (centres(x, found.shares) for x in states_at(layers, teacher, student))
        return row_mean(structure(known, own, found.masses).mean(0), aligned)


def stacked(parts: Sequence[Tensor]) -> Tensor:
    """Ranges [B, S, 2] or masks [B, S] of several key layers, [K, B, S, ...], padded to the same S."""
    most = max(x.shape[1] for x in parts)
    return torch.stack([functional.pad(x, (*(0, 0) * (x.dim() - 2), 0, most - x.shape[1])) for x in parts])
