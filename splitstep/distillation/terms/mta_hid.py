"""MTA's alignment of hidden representations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Generator, Tensor, nn

from ..divergences import row_mean
from ..geometry import angles, normalised
from ..records import Aligned, Shapes, Shown
from .mta import granular_layers
from .stacked import projected_at, states_at, weights_at
from .term import Needs, Term, check_tokens, layer_pairs, layer_projectors


@final
@dataclass(frozen=True)
class WeightedHidden(Term):
    """sum over key layers of sum over tokens w_t (1 - cos(W_l H^S_t, H^T_t)).

    w_t are the teacher's token weights (`token_weights`), W_l is a linear map from the student's width to the
    teacher's. The key layers are those of `mta.dsa`, and are named in the same way; a layer counts once. The teacher's
    layer is floor(l N_T / N_S).

    Ours: w_t is normalised to 1 over the tokens of a text; the mean over texts; W_l starts orthogonal, or as the
    identity between equal widths.
    """

    words: tuple[int, ...] = ()
    phrases: tuple[int, ...] = ()

    def keys(self, depth: int) -> tuple[int, ...]:
        return tuple(dict.fromkeys(layer for _, layer in granular_layers(self.words, self.phrases, depth)))

    def needs(self, shapes: Shapes) -> Needs:
        pairs = layer_pairs(self.keys(shapes.student.layers), shapes)
        return Needs(layers=pairs, weighted=frozenset(theirs for theirs, _ in pairs), same_tokens=True)

    def projectors(self, shapes: Shapes, seed: Generator) -> Mapping[str, nn.Module]:
        return layer_projectors(self.keys(shapes.student.layers), shapes, seed)

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        check_tokens(teacher, student, "mta.hid")
        layers = self.keys(student.layers)
        states = states_at(layers, teacher, student)
        gaps = angles(projected_at(layers, projectors, states.student), states.teacher)
        weights = normalised(weights_at(layers, teacher, student))
        return row_mean((weights * gaps).sum((0, 2)), aligned)
