"""What a probe is: made anew for each pass through a stack, called with its events, asked for figures at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from ..integrate import Event

Figures = Mapping[str, tuple[float, ...]]
"""Series by name, such as that of a field: a number for each layer."""


class Pass(NamedTuple):
    """One pass through a stack, when it is over: the model, its inputs (labels too), the stack's name, the state that
    it ended with, and what the model returned (the loss too, if there are labels)."""

    model: nn.Module
    batch: Mapping[str, Any]
    stack: str
    x: Tensor
    output: Any


class Probe(Protocol):
    """One measurement of one pass. It changes nothing that it sees."""

    def __call__(self, event: Event) -> None: ...

    def figures(self, passed: Pass) -> Figures: ...


def length(x: Tensor) -> float:
    """The mean length of a state's vectors."""
    return float(x.detach().float().norm(dim=-1).mean())
