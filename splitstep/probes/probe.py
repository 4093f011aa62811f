"""What a probe is: an object made for one pass through a stack, called with its events, and then asked for figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from ..integrate import Event

Figures = Mapping[str, tuple[float, ...]]
"""Series of numbers by name, such as a field's: one number for each layer."""


class Pass(NamedTuple):
    """One completed pass through a stack: the model, its inputs (and labels), the stack's name, the state at the end,
    and what the model returned (with the loss, if there are labels)."""

    model: nn.Module
    batch: Mapping[str, Any]
    stack: str
    x: Tensor
    output: Any


class Probe(Protocol):
    """One measurement of one pass. It must not change what it sees."""

    def __call__(self, event: Event) -> None: ...

    def figures(self, passed: Pass) -> Figures: ...


def length(x: Tensor) -> float:
    """The mean length of a state's vectors."""
    return float(x.detach().float().norm(dim=-1).mean())
