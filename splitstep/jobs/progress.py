"""What a person sees of many runs: a line per finished run and one bar over all steps, on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, final

SECONDS = 30.0  # between plain lines


@final
class RunsProgress:
    """Progress through runs; how far those under way have come is read from their logs, wherever they run."""

    def __init__(self, title: str, runs: int, steps: int, quiet: bool = False) -> None:
        self.title, self.runs, self.steps, self.quiet = title, runs, steps, quiet
        self.ended = 0
        self.left = steps
        self.bar: Any = None
        self.line = time.monotonic()

    def __enter__(self) -> RunsProgress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True, highlight=False))
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.steps)
        return self

    def note(self, text: str) -> None:
        """A line of its own."""
        if self.bar is not None:
            self.bar.console.print(text, markup=False)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def done(self, name: str, text: str) -> None:
        """A run has ended."""
        self.ended += 1
        self.line = time.monotonic()
        self.note(f"[{self.ended}/{self.runs}] {name}: {text}")

    def look(self, running: Sequence[tuple[Path, int]]) -> None:
        """See how far the runs under way have come; each is a folder and its steps."""
        due = time.monotonic() - self.line > SECONDS
        if self.quiet or (self.bar is None and not due):
            return
        left = sum(steps - logged_step(folder) for folder, steps in running)
        if self.bar is not None:
            self.bar.update(self.task, completed=self.steps - left)
        else:
            self.line = time.monotonic()
            print(f"{self.title}: {1 - left / self.steps:.0%} of all steps", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            if kind is None:
                self.bar.update(self.task, completed=self.steps)
            self.bar.stop()


def logged_step(folder: Path) -> int:
    """The newest step in a run's log."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1000))
            return json.loads(file.read().splitlines()[-1])["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0  # not begun, or in the middle of a line
