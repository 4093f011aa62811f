"""Stopping a run so that nothing is lost: Ctrl-C and SIGTERM wait for the end of an update, and for a checkpoint."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch

from .processes import World


class Stopped(Exception):
    """A run that was asked to stop has written a checkpoint of this step, and is not over."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__(f"stopped after step {step:,}, which is saved")
        self.number = number


@final
class Stop:
    """Hears these signals during training. By default it hears none, and they do what they always do."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals, self.asked = signals, 0

    @contextmanager
    def heard(self, world: World) -> Iterator[None]:
        """Note a signal instead of ending at once. A second one ends a process that trains alone; of several, each may
        get it twice, from the terminal and from its launcher."""
        before = {number: signal.getsignal(number) for number in self.signals}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def note(number: int, frame: Any) -> None:
            self.asked = number
            if world.size == 1:
                restore()

        for number in self.signals:
            signal.signal(number, note)
        try:
            yield
        finally:
            restore()

    def agreed(self, world: World, together: bool) -> int:
        """The signal that asks to stop, else 0. Several processes ask each other when they are `together`."""
        if world.size == 1 or not self.signals:
            return self.asked
        total = world.sum(torch.tensor([float(self.asked)], device=world.device)) if together else 0.0
        return (self.asked or signal.SIGTERM) if float(total) else 0


NEVER = Stop()
