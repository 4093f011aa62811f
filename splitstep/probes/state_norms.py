"""How long the state is."""

from __future__ import annotations

from typing import final

from ..integrate import Event
from .probe import Figures, Pass, length


@final
class StateNorms:
    """The mean length of the state's vectors at the start of each layer and, last, at the end of the stack."""

    def __init__(self) -> None:
        self.lengths: list[float] = []

    def __call__(self, event: Event) -> None:
        if event.site.part == 0 and event.site.branch == 0:
            self.lengths.append(length(event.before))

    def figures(self, passed: Pass) -> Figures:
        return {"x": (*self.lengths, length(passed.x))}
