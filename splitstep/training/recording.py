"""What probes find during training, recorded every so often on the same examples."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import final

from torch import Tensor

from ..options import records
from ..probes import observe
from ..tasks import Batch, Task
from .evaluate import evaluating
from .journal import Journal
from .run import Run
from .update import autocast

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
