"""How long an inspection takes: an estimate before it begins, and how much is left while it runs."""

import time
from collections.abc import Mapping
from typing import final

from ...support.words import duration
from ...training.progress import Line, Progress

TRUSTED = 0.1  # of the whole: after so much, what is measured counts as much as what was estimated


@final
class Clock:
    """What is done and what is left. Silent unless it tells."""

    def __init__(self, tells: bool, title: str = "inspect") -> None:
        self.tells, self.title, self.line = tells, title, Line()
        self.costs: dict[str, float] = {}
        self.all = self.begun = 0.0

    def say(self, text: str) -> None:
        """A line of its own."""
        Progress(self.title, 0, not self.tells).say(text)

    def begin(self, what: str, costs: Mapping[str, float]) -> None:
        """Say what is to be done; the costs of units are in seconds, about."""
        self.costs, self.all, self.begun = dict(costs), sum(costs.values()), time.monotonic()
        if costs:
            self.say(f"{what}: {duration(self.all)}")

    @property
    def left(self) -> float:
        """How many seconds are left: by the estimate at first, then by what the units so far have taken."""
        rest, trusted = sum(self.costs.values()), TRUSTED * self.all
        if not rest:
            return 0.0
        return rest * (time.monotonic() - self.begun + trusted) / (self.all - rest + trusted)

    def did(self, unit: str, what: str) -> None:
        """A unit is done; `what` says how far its kind is."""
        self.costs.pop(unit, None)
        if self.tells:
            self.line.show(f"{self.title}  {what}, {duration(self.left)} left", not self.costs)
