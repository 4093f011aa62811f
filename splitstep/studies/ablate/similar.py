"""Two networks compared layer by layer, and head by head."""

from __future__ import annotations

import math

from torch import Tensor

from ...probes.divergence import COMPARISONS, compare_attention
from ...probes.similarity import linear_cka, mean_cosine
from .pairs import Measure
from .records import Values, rounded


def cka_layers(x: Tensor, y: Tensor) -> Values:
    """Linear CKA of each layer's states [L + 1, N, width]; 0 where the states of a layer are all the same, so nothing
    varies together. States that are not finite have none, nor have those of other tokens."""
    if x.shape[:2] != y.shape[:2]:
        return (math.nan,) * len(x)
    finite = x.isfinite().flatten(1).all(1) & y.isfinite().flatten(1).all(1)
    found = linear_cka(x, y)
    return tuple(found.where(~(found.isnan() & finite), 0.0).tolist())


def cosine_layers(x: Tensor, y: Tensor) -> Values:
    """The mean cosine of each layer's states [L + 1, N, width]; NaN if the widths differ."""
    return tuple(mean_cosine(x, y).tolist()) if x.shape == y.shape else (math.nan,) * len(x)


def attention_heads(real: Tensor | None) -> Measure:
    """Compares attention weights [L, n, heads, T, S]: each comparison one after the other, by layer and head. `real`
    [n, T] says which queries are not padding. All are NaN if the numbers of heads differ."""

    def measure(x: Tensor, y: Tensor) -> Values:
        if x.shape != y.shape:
            return (math.nan,) * (len(COMPARISONS) * x.shape[0] * x.shape[2])
        found = compare_attention(x, y, None if real is None else real.bool())
        return tuple(value for one in found.values() for value in one.flatten().tolist())

    return measure


def by_head(values: Values, layers: int) -> dict[str, tuple[Values, ...]]:
    """What `attention_heads` has found: `[layer][head]` by the name of the comparison."""
    heads = len(values) // (len(COMPARISONS) * layers)
    rows = [tuple(map(rounded, values[i : i + heads])) for i in range(0, len(values), heads)]
    return {name: tuple(rows[i * layers : (i + 1) * layers]) for i, name in enumerate(COMPARISONS)}
