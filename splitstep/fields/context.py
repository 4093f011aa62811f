"""What fields need besides the time and the state."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor


class Context(NamedTuple):
    """Masks, positions, cache, encoder states and the dropout seed of one forward pass.

    Shapes: B batch, T queries, S keys, R rows of the encoder's states, E width per head.
    """

    mask: Tensor | None = None  # [B or 1, 1, T or 1, S], True where a query may look, or `barrier` of that; None: all
    causal: bool = False  # no query looks ahead; only without `mask`
    rotary: tuple[Tensor, Tensor] | None = None  # cosine and sine, [B or 1, 1, T, E]
    cache: Any = None  # keeps keys and values: update(k, v, slot) -> (k, v)
    cross_cache: Any = None  # the same for the encoder's states, which never grow
    slot: int | None = None  # where this evaluation keeps its keys and values
    cross_slot: int | None = None
    memory: Tensor | None = None  # encoder states, [B, R, width]
    memory_mask: Tensor | None = None  # the same for the encoder's states, [B, 1, 1, R]
    seed: Tensor | None = None  # an integer; None: no dropout
