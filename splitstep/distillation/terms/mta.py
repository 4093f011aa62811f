"""MTA's key layers: words in the lower ones, phrases in the higher ones."""

from __future__ import annotations

from ..layers import PHRASES, WORDS, key_layers
from ..records import SpanKind


def granular_layers(words: tuple[int, ...], phrases: tuple[int, ...], depth: int) -> list[tuple[SpanKind, int]]:
    """The student's key layers with their kind of span: those given, else words at N/2, phrases at 3N/4 and N."""
    if words or phrases:
        lower, higher = (key_layers(given, (), depth) for given in (words, phrases))
    else:
        lower, higher = (key_layers((), depths, depth) for depths in (WORDS, PHRASES))
    return [*(("words", layer) for layer in lower), *(("phrases", layer) for layer in higher)]
