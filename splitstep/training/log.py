"""What a run reports: lines in metrics.jsonl, TensorBoard events, progress on the terminal, and what probes find."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Any, final

from torch import Tensor

from ..options import records
from ..probes import Figures, observe
from ..support.typed import plain
from ..tasks import Batch, Task
from .directory import RunDirectory
from .evaluate import evaluating
from .progress import Progress
from .run import Run
from .update import autocast


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


EXAMPLES = 64  # unless the recipe says otherwise
BATCHES, LARGER = 32, 8  # how many batches are looked at, and how sizes grow


@final
class Recorder:
    """Sends the first examples of the validation split through a run's model and journals what its probes find. The
    first process does it alone; it keeps the examples and nothing else."""

    def __init__(self, run: Run, journal: Journal) -> None:
        self.run, self.journal = run, journal

    @cached_property
    def batch(self) -> dict[str, Tensor]:
        found = first_examples(self.run.task, self.run.options.probe_batch or EXAMPLES)
        return {name: x.to(self.run.world.device) for name, x in found.items()}

    def record_if_due(self) -> None:
        """Record, if the recipe has probes and this is a step for it."""
        if self.run.recipe.probes and records(self.run.options, self.run.state.step):
            with self.run.clock.paused():
                self.record()

    def record(self) -> None:
        """One pass of the model in evaluation mode, watched by all probes."""
        run, model = self.run, self.run.whole()

        def act() -> None:
            with evaluating(model), autocast(run.precision, run.world.device):
                found = observe(model, self.batch, run.recipe.probes)
            self.journal.write_probes(run.state.step, found)

        run.world.on_first(act)


def first_examples(task: Task, count: int) -> Batch:
    """The first `count` examples of the validation split that fill a batch, or the fullest batch that was found. Texts
    come sorted into lengths, and batches of translators are counted in tokens, so several are looked at."""
    best: Batch = {}
    for size in (count, count * LARGER, count * LARGER**2):
        for batch in islice(task.batches("valid", size), BATCHES):
            best = batch if not best or len(batch["labels"]) > len(best["labels"]) else best
            if len(best["labels"]) >= count:
                return {name: x[:count] for name, x in best.items()}
    return best
