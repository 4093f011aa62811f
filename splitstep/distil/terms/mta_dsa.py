"""MTA's dynamic structural alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ..divergences import row_mean
from ..geometry import SPANS, pooled, structure
from ..layers import teacher_layer
from ..records import Aligned, Shapes, Shown, SpanKind
from .mta import granular_layers, weights_at
from .term import Needs, Term, check_limit, check_tokens, layer_pairs


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
        pairs = layer_pairs(tuple(layer for _, layer in keys), shapes)
        weighted = frozenset(theirs for theirs, _ in pairs)
        return Needs(layers=pairs, weighted=weighted, spans=frozenset(kind for kind, _ in keys), same_tokens=True)

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
        check_tokens(teacher, student, "mta.dsa")
        keys = granular_layers(self.words, self.phrases, student.layers)
        layers = [self.at_layer(kind, layer, teacher, student, aligned) for kind, layer in keys]
        return row_mean(torch.stack(layers).mean(0), aligned)

    def at_layer(self, kind: SpanKind, layer: int, teacher: Shown, student: Shown, aligned: Aligned) -> Tensor:
        """The sum over pairs at one of the student's layers, [B]."""
        spans = aligned.spans[kind].at_most(self.spans)
        theirs = teacher_layer(layer, student.layers, teacher.layers)
        weights = weights_at(teacher, theirs)
        known = pooled(teacher.states[theirs], weights, spans.teacher, spans.mask)
        own = pooled(student.states[layer], weights, spans.student, spans.mask)
        return structure(known.centres, own.centres, known.masses)
