"""How far each field moves the state."""

from __future__ import annotations

from typing import final

from ..integrate import Event
from .probe import Figures, Pass, length


@final
class IncrementNorms:
    """The mean length of what each field or projection adds in each layer, summed over its parts."""

    def __init__(self) -> None:
        self.lengths: dict[str, dict[int, float]] = {}

    def __call__(self, event: Event) -> None:
        for name, increment in event.increments.items():
            layers = self.lengths.setdefault(name, {})
            layers[event.site.step] = layers.get(event.site.step, 0.0) + length(increment)

    def figures(self, passed: Pass) -> Figures:
        return {name: tuple(layers.values()) for name, layers in self.lengths.items()}
