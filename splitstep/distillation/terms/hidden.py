"""Hidden states, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Generator, Tensor, nn

from ..divergences import row_mean
from ..geometry import normalised
from ..layers import PHRASES, WORDS, key_layers
from ..records import Aligned, Shapes, Shown, wide
from .stacked import projected_at, states_at
from .term import Needs, Term, check_tokens, layer_pairs, layer_projectors


@final
@dataclass(frozen=True)
class HiddenStates(Term):
    """mean over key layers and tokens of |W_l H^S_t - H^T_t|² / d, d the teacher's width (FitNets' hint, by layer).

    W_l is a linear map from the student's width to the teacher's. Layers are those of the student; the teacher's is
    floor(l N_T / N_S). Ours: MTA's key layers if none are given; the mean over a text's tokens, then over texts.
    """

    layers: tuple[int, ...] = ()

    def keys(self, depth: int) -> tuple[int, ...]:
        return key_layers(self.layers, WORDS + PHRASES, depth)

    def needs(self, shapes: Shapes) -> Needs:
        return Needs(layers=layer_pairs(self.keys(shapes.student.layers), shapes), same_tokens=True)

    def projectors(self, shapes: Shapes, seed: Generator) -> Mapping[str, nn.Module]:
        return layer_projectors(self.keys(shapes.student.layers), shapes, seed)

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        check_tokens(teacher, student, "hidden")
        layers = self.keys(student.layers)
        states = states_at(layers, teacher, student)
        gaps = (wide(projected_at(layers, projectors, states.student)) - states.teacher).square().mean(-1)
        return row_mean((normalised(student.real.to(gaps)) * gaps.mean(0)).sum(1), aligned)
