"""The progress of many runs on standard error: a line per finished run and one bar over all steps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import final

from ..support.documents import parse_json
from ..training.progress import Progress


@final
class RunsProgress:
    """Progress through runs; that of the running ones is read from their logs, wherever they run."""

    def __init__(self, bar: Progress, runs: int) -> None:
        self.bar, self.runs, self.ended = bar, runs, 0

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self.bar.quiet:
            print(text, file=sys.stderr, flush=True)

    def done(self, name: str, text: str) -> None:
        """A run has ended."""
        self.ended += 1
        self.note(f"[{self.ended}/{self.runs}] {name}: {text}")
        if self.ended == self.runs:
            self.look([])

    def look(self, running: Sequence[tuple[Path, int]]) -> None:
        """Update the bar from the running runs; each is a folder and its number of steps."""
        if not self.bar.quiet:
            left = sum(steps - logged_step(folder) for folder, steps in running)
            self.bar.update(self.bar.total - left, {"runs": f"{self.ended}/{self.runs}"})


def logged_step(folder: Path) -> int:
    """The newest step in a run's log."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1000))
            return parse_json(file.read().splitlines()[-1].decode(), "the last line")["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0  # not started, or in the middle of a line
