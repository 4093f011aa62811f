"""How long the state is."""

from __future__ import annotations

from typing import final

from torch import Tensor

from ..integrate import Event
from .probe import Figures, Pass, Probe, begins_step, lengths, mean_over, numbers


@final
class StateNorms(Probe):
    """The mean length of the state's vectors at the start of each step and, last, at the end of the stack."""

    def __init__(self) -> None:
        self.lengths: list[Tensor] = []

    def __call__(self, event: Event) -> None:
        if begins_step(event):
            self.lengths.append(lengths(event.before))

    def figures(self, passed: Pass) -> Figures:
        return {"x": numbers([mean_over(one, passed.real) for one in (*self.lengths, lengths(passed.x))])}
