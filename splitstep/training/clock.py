"""Wall time of a run, summed over its interruptions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, final

from .processes import World


class Times(NamedTuple):
    """Seconds of the whole run; seconds of its timed updates, and the tokens of these."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    timed_tokens: int = 0

    @property
    def rate(self) -> float | None:
        """Tokens per second of training."""
        return self.timed_tokens / self.training_seconds if self.training_seconds else None


@final
class Clock:
    """Counts on from the times of the last checkpoint. Training time does not count inside `paused`, nor before the
    first such block ends: evaluation, checkpoints and the first update of each shape (compilation, capture)."""

    def __init__(self, before: Times, world: World) -> None:
        self.before, self.world = before, world
        self.start = time.monotonic()
        self.training, self.tokens = before.training_seconds, before.timed_tokens
        self.since: float | None = None

    def count(self, tokens: int) -> None:
        self.tokens += tokens

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.world.synchronise()
        if self.since is not None:
            self.training += time.monotonic() - self.since
            self.since = None
        try:
            yield
        finally:
            self.world.synchronise()
            self.since = time.monotonic()

    def read(self) -> Times:
        """The times now; on a GPU they are right only after a synchronisation, such as reading the losses."""
        now = time.monotonic()
        running = 0.0 if self.since is None else now - self.since
        return Times(self.before.seconds + now - self.start, self.training + running, self.tokens)
