"""What a run reports: lines in metrics.jsonl, TensorBoard events, progress on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from ..support.typed import plain
from .directory import RunDirectory
from .progress import Progress


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
