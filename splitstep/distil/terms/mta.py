"""What MTA's two terms share: key layers, words then phrases, and token weights."""

from __future__ import annotations

from torch import Tensor

from ..geometry import token_weights
from ..layers import PHRASES, WORDS, key_layers
from ..records import Shown, SpanKind


def granular_layers(words: tuple[int, ...], phrases: tuple[int, ...], depth: int) -> list[tuple[SpanKind, int]]:
    """The student's key layers with their kind of span: those given, else words at N/2, phrases at 3N/4 and N."""
    if words or phrases:
        lower, higher = (key_layers(given, (), depth) for given in (words, phrases))
    else:
        lower, higher = (key_layers((), depths, depth) for depths in (WORDS, PHRASES))
    return [*(("words", layer) for layer in lower), *(("phrases", layer) for layer in higher)]


def weights_at(teacher: Shown, layer: int) -> Tensor:
    """The teacher's token weights at one of its layers, [B, T], 0 at padding."""
    known = teacher.weights.get(layer)
    found = token_weights(teacher.states[layer], teacher.real) if known is None else known
    return found.masked_fill(~teacher.real, 0).detach()
