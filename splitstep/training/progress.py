"""What a person sees of a run: a progress bar on a terminal, plain lines elsewhere, always on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, final

Figures = dict[str, Any]


def shown(figures: Figures) -> str:
    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.3e}" if 0 < abs(value) < 1e-2 else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
        return str(value)

    return "  ".join(f"{name} {text(value)}" for name, value in figures.items())


@final
class Progress:
    """Progress through `total` steps; `quiet` shows nothing."""

    def __init__(self, title: str, total: int, quiet: bool = False) -> None:
        self.title, self.total, self.quiet = title, total, quiet
        self.bar: Any = None
        self.line = 0.0

    def __enter__(self) -> Progress:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn("{task.fields[figures]}"),
            )  # fmt: skip
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, figures="")
        return self

    def say(self, text: str) -> None:
        """A line that stays, before the bar begins."""
        if not self.quiet:
            print(f"{self.title}  {text}", file=sys.stderr, flush=True)

    def update(self, step: int, figures: Figures, seconds_left: float | None = None, force: bool = False) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=step, figures=shown(figures))
        elif not self.quiet and (force or time.monotonic() - self.line > 10):
            self.line = time.monotonic()
            left = "" if seconds_left is None else f"  {seconds_left:,.0f} s left"
            print(f"{self.title}  step {step}/{self.total}  {shown(figures)}{left}", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
