"""What a run tells: a progress bar or plain lines on standard error, lines in metrics.jsonl, TensorBoard events."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from .. import probes
from ..support.documents import parse_json
from ..support.typed import plain
from .directory import RunDirectory

EVERY = 10.0  # seconds between two lines, where a line cannot be written over
ENOUGH, SOON = 0.04, 60.0  # the share of all work, or else the seconds, after which the pace of runs is known
Figures = dict[str, Any]
Counting = Callable[[int, int], None]
"""Called with the number done and the total."""


def shown(figures: Figures) -> str:
    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.3e}" if 0 < abs(value) < 1e-2 else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
        return str(value)

    return "  ".join(f"{name} {text(value)}" for name, value in figures.items())


def counting(title: str, at_once: bool = False, unit: str = "lines") -> Counting:
    """Counts lines or other units on standard error: in place on a terminal, elsewhere one message every ten seconds,
    the first after ten seconds or at once, and a last one at the end if there was a first."""
    line = Line(at_once)

    def show(number: int, total: int) -> None:
        line.show(f"{title} {number:,}/{total:,} {unit}", number == total, line.begun and number == total)

    return show


@final
class Line:
    """A line on standard error: written over on a terminal, elsewhere written anew every ten seconds."""

    def __init__(self, at_once: bool = True) -> None:
        self.last, self.begun = -inf if at_once else time.monotonic(), False

    def show(self, text: str, ends: bool = False, now: bool = False) -> None:
        """The line as it is; on a terminal it `ends`, elsewhere it is written `now` whenever the last one was."""
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="\n" * ends, file=sys.stderr, flush=True)
        elif now or time.monotonic() - self.last > EVERY:
            self.last, self.begun = time.monotonic(), True
            print(text, file=sys.stderr, flush=True)


@final
class Progress:
    """Progress through `total` steps; `quiet` shows nothing."""

    def __init__(self, title: str, total: int, quiet: bool = False) -> None:
        self.title, self.total, self.quiet = title, total, quiet
        self.bar: Any = None
        self.line = Line()

    def __enter__(self) -> "Progress":
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[figures]}"),
            )  # fmt: skip
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, figures="", left="")
        return self

    def say(self, text: str) -> None:
        """Print a line before the bar begins."""
        if not self.quiet:
            print(f"{self.title}  {text}", file=sys.stderr, flush=True)

    def counting(self, what: str, unit: str = "lines") -> Counting | None:
        """A counter for work after the last step."""
        return None if self.quiet else counting(f"{self.title}  {what}", at_once=True, unit=unit)

    def update(self, step: int, figures: Figures, seconds_left: float | None = None, force: bool = False) -> None:
        left = "" if seconds_left is None else f"{seconds_left:,.0f} s left"
        if self.bar is not None:
            self.bar.update(self.task, completed=step, figures=shown(figures), left=left)
        elif not self.quiet:
            said = filter(None, (self.title, f"step {step}/{self.total}", shown(figures), left))
            self.line.show("  ".join(said), now=force)

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def open_tensorboard(directory: RunDirectory, step: int) -> Any:
    """A writer of event files; it hides what was written after `step` before an interruption."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("--tensorboard needs a package: pip install tensorboard") from None
    return SummaryWriter(str(directory.path / "tensorboard"), purge_step=step + 1)


@final
class Journal:
    """The first process's journal; the others' are silent."""

    def __init__(self, directory: RunDirectory, progress: Progress, writer: Any, silent: bool) -> None:
        self.directory, self.progress, self.writer, self.silent = directory, progress, writer, silent

    def write(self, step: int, split: str, figures: Mapping[str, Any]) -> None:
        """Log one record: numbers by name, or lists and tables of them, which TensorBoard does not get."""
        if self.silent:
            return
        self.directory.log({"step": step, "split": split, **plain(figures)})
        if self.writer is not None:
            for name, value in figures.items():
                if isinstance(value, float):
                    self.writer.add_scalar(f"{split}/{name}", value, step)

    def write_probes(self, step: int, found: Mapping[str, Mapping[str, probes.Figures]]) -> None:
        """Log what probes found: numbers as one record, by probe, stack and series, and tensors in a file."""
        if self.silent:
            return
        tensors: dict[str, Tensor] = {}
        kept: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {}
        for probe, stacks in found.items():
            for stack, figures in stacks.items():
                series = kept.setdefault(probe, {}).setdefault(stack, {})
                for name, value in figures.items():
                    if isinstance(value, Tensor):
                        tensors[f"{probe}/{stack}/{name}"] = value
                    else:
                        series[name] = value
        if tensors:
            self.directory.write_tensors(step, tensors)
        self.write(step, "probe", kept)


class Running(NamedTuple):
    """A job that has not ended: its folder, how many steps it takes, and its share of all work."""

    folder: Path
    steps: int
    work: float


@final
class RunsProgress:
    """Progress through runs; that of the running ones is read from their logs, wherever they run. The time left follows
    from the pace since the first step was seen, so it counts neither what an earlier call did nor the start. `work` is
    that of all runs, and of what comes after them."""

    def __init__(self, bar: Progress, runs: int, work: float | None = None) -> None:
        self.bar, self.runs, self.ended = bar, runs, 0
        self.left = float(bar.total) if work is None else work
        self.first: tuple[float, float] | None = None  # when steps were first seen to be made, and what was left then
        self.last: tuple[float, float] | None = None  # as of the newest ones

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self.bar.quiet:
            print(text, file=sys.stderr, flush=True)

    def done(self, name: str, text: str, work: float = 0.0) -> None:
        """A run has ended."""
        self.ended += 1
        self.left -= work
        self.note(f"[{self.ended}/{self.runs}] {name}: {text}")
        if self.ended == self.runs:
            self.look([])

    def look(self, running: Sequence[Running]) -> None:
        """Update the bar from the running runs."""
        if not self.bar.quiet:
            logged = [(one, logged_step(one.folder)) for one in running]
            done = self.bar.total - sum(one.steps - step for one, step in logged)
            left = self.left - sum(one.work * step / max(1, one.steps) for one, step in logged)
            self.bar.update(done, {"runs": f"{self.ended}/{self.runs}"}, self.seconds_left(left))

    def seconds_left(self, left: float) -> float | None:
        """How long the work takes that is left; None before enough was done to know the pace. It falls between two
        steps."""
        now = time.monotonic()
        if self.last is None or left < self.last[1]:
            self.first = self.first or (self.last and (now, left))
            self.last = now, left
        if self.first is None or self.first[1] <= self.last[1]:
            return None
        took, done = self.last[0] - self.first[0], self.first[1] - self.last[1]
        if done < ENOUGH * self.first[1] and took < SOON:
            return None
        pace = took / done
        return max(0.0, pace * left - (now - self.last[0]))


def logged_step(folder: Path) -> int:
    """The newest step in a run's log."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1000))
            return parse_json(file.read().splitlines()[-1].decode(), "the last line")["step"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0  # not started, or in the middle of a line
