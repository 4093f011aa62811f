"""Terms between the states of both models at key layers: FitNets' hints, and MTA's two, weighted by tokens and spans.

MTA has words in the lower key layers and phrases in the higher ones.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ...flows.keys import Key
from ..geometry import SPANS, angles, centres, normalised, shares, structure
from ..layers import PHRASES, WORDS, Layers, key_layers, projected_at, projector, states_at, theirs, weights_at
from ..losses import row_mean
from ..records import Aligned, Outputs, Shapes, SpanKind, wide
from . import Needs, Projectors, Term, check_limit, check_tokens


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
