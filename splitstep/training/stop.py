"""Stopping a run without losing anything: Ctrl-C and SIGTERM wait for the end of an update and a checkpoint."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from .processes import World


class Stopped(Exception):
    """A run was asked to stop, wrote a checkpoint of this step, and is not finished."""

    def __init__(self, step: int, number: int) -> None:
        super().__init__(f"stopped after step {step:,}, which is saved")
        self.number = number


@final
class Stop:
    """Handles these signals during training. By default it handles none, and they act as usual."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals, self.asked = signals, 0

    @contextmanager
    def handling(self, world: World) -> Iterator[None]:
        """Note a signal instead of ending at once. A second one ends a process that trains alone; each of several may
        get the same one twice, from the terminal and from the launcher."""
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

    def agreed(self, world: World, synced: bool) -> int:
        """The signal that asks to stop, else 0. Several processes agree on it, at `synced` steps only."""
        if world.size == 1 or not self.signals:
            return self.asked
        return (self.asked or signal.SIGTERM) if synced and world.any(self.asked) else 0


NEVER = Stop()
