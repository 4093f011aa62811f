"""Objectives of the tests' own, which recipes can name where this module is imported."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from splitstep.recipe import OBJECTIVES
from splitstep.tasks import Batch, Task
from splitstep.training.objective import Objective


def repeated(model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
    """The task's loss once more, from another function."""
    output = model(**batch, dropout_seed=seed, num_items_in_batch=items)
    return output.loss


def repeat(model: nn.Module, task: Task, options: Mapping[str, Any]) -> Objective:
    return repeated


class Projected(nn.Module):
    """The task's loss, and how far a learned projection of the logits is from those of a frozen one; it counts its
    calls in a buffer, and begins at random."""

    steps: Tensor

    def __init__(self, labels: int, weight: float) -> None:
        super().__init__()
        self.weight = weight
        self.projector = nn.Linear(labels, 3)
        self.teacher = nn.Linear(labels, 3).requires_grad_(False)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
        output = model(**batch, dropout_seed=seed, num_items_in_batch=items)
        far = self.projector(output.logits.detach()) - self.teacher(output.logits.detach())
        with torch.no_grad():
            self.steps += 1
        return output.loss + self.weight * far.square().sum() / items


def project(model: nn.Module, task: Task, options: Mapping[str, Any]) -> Objective:
    if options.keys() != {"weight"}:
        raise ValueError(f"the objective project has the option weight, and {', '.join(options) or 'nothing'} is given")
    return Projected(task.shape["labels"], options["weight"])


def noisy(model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
    """The task's loss times a number from PyTorch's own generator, from which fused attention draws its masks."""
    return repeated(model, batch, items, seed) * (0.5 + torch.rand((), device=items.device))


OBJECTIVES.add("noisy", lambda model, task, options: noisy)
OBJECTIVES.add("repeat", repeat)
OBJECTIVES.add("project", project)
