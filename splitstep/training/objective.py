"""What training minimises: a function of model and batch, by default the task's own loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final, runtime_checkable

from torch import Tensor, nn

from ..tasks import Batch, Task


class Objective(Protocol):
    """The loss of one part of a batch: its share of a mean over the `items` that are scored in the whole batch.

    A module may have parameters of its own. They are trained and checkpointed, but not exported with the model.
    """

    def __call__(self, model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor: ...


@runtime_checkable
class BatchSource(Protocol):
    """Where training batches come from: the task, or an objective that adds to the task's batches what it needs, such
    as what a teacher showed. A batch is a pure function of the arguments; its tensors have one row an example."""

    def batch(self, seed: int, step: int, size: int) -> Batch: ...


def task_loss(model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
    """The task's own loss, which its model computes."""
    return model(**batch, dropout_seed=seed, num_items_in_batch=items).loss


def of_the_task(model: nn.Module, task: Task, options: Mapping[str, Any]) -> Objective:
    if options:
        raise ValueError(f'the objective "task" has no options, but {", ".join(options)} is given: leave it out')
    return task_loss


Factory = Callable[[nn.Module, Task, Mapping[str, Any]], Objective]
"""What makes the objective of a run, from the recipe's options; see recipe.OBJECTIVES."""


@final
class Learner(nn.Module):
    """A model and its objective as one module, whose forward pass is the loss: this is what is compiled, captured and
    shared between processes."""

    def __init__(self, model: nn.Module, objective: Objective = task_loss) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
        return self.objective(self.model, batch, items, seed)

    def own(self) -> dict[str, Tensor]:
        """What the objective learns and its persistent buffers; not what is frozen, such as a teacher."""
        kept = self.objective.state_dict(keep_vars=True) if isinstance(self.objective, nn.Module) else {}
        return {name: x for name, x in kept.items() if x.requires_grad or not isinstance(x, nn.Parameter)}
