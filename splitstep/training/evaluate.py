"""The figures of a model on one split of a task: with the truth before each guess, and running freely."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ..tasks import Batch, FreeRun, Task
from .processes import World
from .progress import Counting
from .update import autocast


def share(batches: Iterator[Batch], world: World) -> Iterator[tuple[Batch, bool]]:
    """This process's batches, and whether each counts: all processes get equally many, as sharded models need."""
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) == world.size:
            yield group[world.rank], True
            group = []
    if group:
        counts = world.rank < len(group)
        yield group[world.rank if counts else 0], counts


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, split: str, size: int, precision: torch.dtype, world: World | None = None
) -> dict[str, float]:
    """Every example of the split once; several processes share the batches and add their sums."""
    device = next(model.parameters()).device
    world = World(0, 1, device) if world is None else world
    was_training = model.training
    model.eval()
    totals: dict[str, float] = {}
    for batch, counts in share(task.batches(split, size), world):
        moved = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
        with autocast(precision, device):
            logits = model(**{name: x for name, x in moved.items() if name != "labels"}, use_cache=False).logits
        for name, value in task.score(logits, moved).items():
            totals[name] = totals.get(name, 0.0) + float(value) * counts
    model.train(was_training)
    if world.size > 1:
        names = sorted(totals)
        summed = world.sum(torch.tensor([totals[name] for name in names], dtype=torch.float64, device=device))
        totals = dict(zip(names, summed.tolist(), strict=True))
    return task.summary(totals)


def free_run(
    model: nn.Module, task: Task, split: str, precision: torch.dtype, world: World, progress: Counting | None = None
) -> FreeRun | None:
    """What the model writes for a split by itself, on the first process, and what that is worth, told to all."""

    def act() -> FreeRun | None:
        was_training = model.training
        model.eval()
        found = task.free_run(model, split, precision, progress)
        model.train(was_training)
        return found

    return world.from_first(act)
