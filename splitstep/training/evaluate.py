"""The figures of a model on one split of a task."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..tasks import Task
from .update import autocast


@torch.no_grad()
def evaluate(
    model: nn.Module, task: Task, split: str, size: int, precision: torch.dtype, accelerator: Any = None
) -> dict[str, float]:
    """Every example of the split once; several processes share the batches and add their sums."""
    device = next(model.parameters()).device
    rank, world = (0, 1) if accelerator is None else (accelerator.process_index, accelerator.num_processes)
    was_training = model.training
    model.eval()
    totals: dict[str, float] = {}
    for number, batch in enumerate(task.batches(split, size)):
        if number % world != rank:
            continue
        moved = {name: x.to(device, non_blocking=True) for name, x in batch.items()}
        with autocast(precision, device):
            logits = model(**{name: x for name, x in moved.items() if name != "labels"}, use_cache=False).logits
        for name, value in task.score(logits.float(), moved).items():
            totals[name] = totals.get(name, 0.0) + float(value)
    model.train(was_training)
    if world > 1:
        totals = _summed(totals, accelerator)
    return task.summary(totals)


def _summed(totals: dict[str, float], accelerator: Any) -> dict[str, float]:
    from accelerate.utils import gather_object

    gathered: list[dict[str, float]] = gather_object([totals])
    names = sorted({name for part in gathered for name in part})
    return {name: sum(part.get(name, 0.0) for part in gathered) for name in names}
