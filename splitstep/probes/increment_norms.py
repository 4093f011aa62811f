"""How far each field moves the state."""

from __future__ import annotations

from typing import final

from torch import Tensor

from ..integrate import Event
from .probe import Figures, Pass, Probe, lengths, mean_over, numbers


@final
class IncrementNorms(Probe):
    """The mean length of what each field or projection adds in each step, summed over its parts."""

    def __init__(self) -> None:
        self.lengths: dict[str, dict[int, Tensor]] = {}

    def __call__(self, event: Event) -> None:
        for name, increment in event.increments.items():
            steps, added = self.lengths.setdefault(name, {}), lengths(increment)
            steps[event.site.step] = steps[event.site.step] + added if event.site.step in steps else added

    def figures(self, passed: Pass) -> Figures:
        return {
            name: numbers([mean_over(one, passed.real) for one in steps.values()])
            for name, steps in self.lengths.items()
        }
