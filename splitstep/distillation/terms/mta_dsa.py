"""MTA's dynamic structural alignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..divergences import row_mean
from ..geometry import SPANS, centres, shares, structure
from ..records import Aligned, Shapes, Shown, SpanKind
from .mta import granular_layers
from .stacked import states_at, weights_at
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
        kinds: frozenset[SpanKind] = frozenset(kind for kind, _ in keys)
        return Needs(
            layers=pairs,
            weighted=frozenset(theirs for theirs, _ in pairs),
            spans=kinds,
            limits=frozenset((kind, self.spans) for kind in kinds),
            same_tokens=True,
        )

    def __call__(self, teacher: Shown, student: Shown, aligned: Aligned, projectors: Mapping[str, nn.Module]) -> Tensor:
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
    return torch.stack([x if x.shape[1] == most else padded(x, most - x.shape[1]) for x in parts])


def padded(x: Tensor, more: int) -> Tensor:
    return functional.pad(x, (*(0, 0) * (x.dim() - 2), 0, more))
