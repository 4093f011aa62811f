"""The figures of a model on one split of a task: teacher-forced, and running freely; and what probes look at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor, nn

from ..tasks import Batch, FreeRun, Task
from .processes import Processes
from .progress import Counting
from .update import autocast

PATIENCE = 2.0  # seconds before an evaluation shows its progress
EXAMPLES = 64  # that probes see, unless the recipe says otherwise
BATCHES, LARGER = 32, 8  # how many batches are looked at for them, and how sizes grow


def share(batches: Iterator[Batch], world: Processes) -> Iterator[tuple[Batch, bool]]:
    """This process's batches, and whether each counts: sharded models need equally many on all processes."""
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) == world.size:
            yield group[world.rank], True
            group = []
    if group:
        counts = world.rank < len(group)
        yield group[world.rank if counts else 0], counts


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and no gradients."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        yield
    model.train(was_training)


def reported(batches: Iterator[Batch], total: Callable[[], int], progress: Counting | None) -> Iterator[Batch]:
    """The batches, with progress after each once the work has taken a while; only then they are counted."""
    begun, number = time.monotonic(), 0
    for done, batch in enumerate(batches, 1):
        yield batch
        if progress is not None and time.monotonic() - begun > PATIENCE:
            number = number or total()
            progress(done, number)


def evaluate(
    model: nn.Module,
    task: Task,
    split: str,
    size: int,
    precision: torch.dtype,
    world: Processes | None = None,
    progress: Counting | None = None,
) -> dict[str, float]:
    """The figures over every example of the split; several processes share the batches and add their sums."""
    device = next(model.parameters()).device
    world = Processes(0, 1, device) if world is None else world
    totals: dict[str, float] = {}
    each: list[Tensor] = []
    batches = reported(task.batches(split, size), lambda: sum(1 for _ in task.batches(split, size)), progress)
    with evaluating(model):
        for batch, counts in share(batches, world):
            moved = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
            with autocast(precision, device):
                output = model(**{name: x for name, x in moved.items() if name != "labels"}, use_cache=False)
            logits = output.logits
            for name, value in task.score_output(output, moved).items():
                totals[name] = totals.get(name, 0.0) + float(value) * counts
            if counts and (found := task.predictions(logits, moved)) is not None:
                each.append(found.cpu())
    if world.size > 1:
        names = sorted(totals)
        summed = world.sum(torch.tensor([totals[name] for name in names], dtype=torch.float64, device=device))
        totals = dict(zip(names, summed.tolist(), strict=True))
    everything = [one for part in world.together(lambda: each) for one in part]
    return task.summary(totals) | (task.summary_of_all(torch.cat(everything)) if everything else {})


def free_run(
    model: nn.Module, task: Task, split: str, precision: torch.dtype, world: Processes, progress: Counting | None = None
) -> FreeRun | None:
    """What the model writes for a split by itself, on the first process, with its scores, sent to all processes."""

    def act() -> FreeRun | None:
        with evaluating(model):
            return task.free_run(model, split, precision, progress)

    return world.from_first(act)


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
