"""What a run reports: lines in metrics.jsonl, TensorBoard events, progress on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor

from ..probes import Figures
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

    def write_probes(self, step: int, found: Mapping[str, Mapping[str, Figures]]) -> None:
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
