"""How long an inspection takes: an estimate before it begins, and how much is left while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from math import inf
from typing import final

from ...support.words import counted

EVERY = 10.0  # seconds between two lines, where a line cannot be written over
TRUSTED = 0.1  # of the whole: after so much, what is measured counts as much as what was estimated


@final
class Clock:
    """What is done and what is left. Silent unless it tells."""

    def __init__(self, tells: bool, title: str = "inspect") -> None:
        self.tells, self.title, self.last = tells, title, -inf
        self.costs: dict[str, float] = {}
        self.all = self.pace = self.begun = 0.0

    def say(self, text: str) -> None:
        """A line of its own."""
        if self.tells:
            print(f"{self.title}  {text}", file=sys.stderr, flush=True)

    def begin(self, what: str, costs: Mapping[str, float], pace: float) -> None:
        """Say what is to be done; the costs of units are in passes, each of `pace` seconds."""
        self.costs, self.pace, self.begun = dict(costs), pace, time.monotonic()
        self.all = sum(costs.values())
        if costs:
            self.say(f"{what}: about {duration(self.all * pace)}")

    @property
    def left(self) -> float:
        """How many seconds are left: by the estimate at first, then by what the units so far have taken."""
        rest = sum(self.costs.values())
        done = self.all - rest
        trusted = TRUSTED * self.all
        taken = time.monotonic() - self.begun
        return rest * (taken + trusted * self.pace) / (done + trusted) if rest else 0.0

    def did(self, unit: str, what: str) -> None:
        """A unit is done; `what` says how far its kind is."""
        self.costs.pop(unit, None)
        if not self.tells:
            return
        text = f"{self.title}  {what}, {duration(self.left)} left"
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="" if self.costs else "\n", file=sys.stderr, flush=True)
        elif time.monotonic() - self.last > EVERY:
            self.last = time.monotonic()
            print(text, file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time in words: 45 s, 3 min."""
    return f"{max(1, round(seconds))} s" if seconds < 100 else counted(round(seconds / 60), "minute")
