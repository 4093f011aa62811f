"""What training minimises, by default the task's own loss, and the data of one update: pure functions of the step."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar, final, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ..kernels.loss import cross_entropy, shifted
from ..models import SplitstepModel
from ..options import TrainOptions
from ..tasks import Batch, Task
from .processes import Processes


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


def loss_of_others(model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
    """The loss of the next token by a causal model that is not of this package: its own may have other terms. Its
    dropout comes from PyTorch's generator."""
    inputs = {name: x for name, x in batch.items() if name != "labels"}
    logits = model(**inputs, use_cache=False).logits
    return cross_entropy(logits, shifted(batch["labels"]), items)


def of_the_task(model: nn.Module, task: Task, options: Mapping[str, Any]) -> Objective:
    if options:
        raise ValueError(f'the objective "task" has no options, but {", ".join(options)} is given: leave it out')
    return task_loss if isinstance(model, SplitstepModel) else loss_of_others


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


T = TypeVar("T")


class UpdateBatch(NamedTuple):
    """The data of one update on this process: parts to accumulate, a dropout seed for each, and the numbers of scored
    items and of tokens in the whole batch, over all parts and processes."""

    parts: Sequence[Batch]
    seeds: Sequence[Tensor]
    items: Tensor
    tokens: int

    def to(self, device: torch.device) -> "UpdateBatch":
        return self.over(lambda x: x.to(device, non_blocking=True))

    def pinned(self, device: torch.device) -> "UpdateBatch":
        """The same in page-locked memory, so copies to the GPU do not wait for its pending work.

        PyTorch keeps each block until the copies from it are done.
        """
        with torch.cuda.device(device):  # a new thread would otherwise initialise the first GPU
            return self.over(Tensor.pin_memory)

    def over(self, act: Callable[[Tensor], Tensor]) -> "UpdateBatch":
        """The work with `act` applied to every tensor."""
        parts = [{name: act(x) for name, x in part.items()} for part in self.parts]
        return UpdateBatch(parts, [act(x) for x in self.seeds], act(self.items), self.tokens)

    def tensors(self) -> list[Tensor]:
        return [*(x for part in self.parts for x in part.values()), *self.seeds, self.items]

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple((x.shape, x.dtype) for x in self.tensors())


def dropout_seed(seed: int, step: int, rank: int, part: int) -> Tensor:
    return torch.tensor(int(np.random.SeedSequence([seed, step, rank, part]).generate_state(1)[0]) >> 1)


def work_for(
    task: Task, options: TrainOptions, step: int, world: Processes, source: BatchSource | None = None
) -> UpdateBatch:
    """This process's share of update number `step`; `source` is an objective that adds to the task's batches."""
    drawn = options.seed if options.batch_seed is None else options.batch_seed
    batch = (source or task).batch(drawn, step, options.batch)
    parts = divided(batch, world, options.accumulate)
    seeds = [dropout_seed(options.seed, step, world.rank, i) for i in range(options.accumulate)]
    work = UpdateBatch(parts, seeds, torch.tensor(float(task.items(batch))), task.tokens(batch))
    return work.pinned(world.device) if world.device.type == "cuda" else work


def divided(batch: Batch, world: Processes, count: int) -> list[Batch]:
    """This process's rows of a batch, in so many parts. A whole batch is not cut: in each call of PyTorch this thread
    passes Python's lock back and forth with the one that starts the device's work."""
    if world.size == count == 1:
        return [{name: x.contiguous() for name, x in batch.items()}]
    chunks = {name: x[world.rank :: world.size].tensor_split(count) for name, x in batch.items()}
    return [{name: chunks[name][i].contiguous() for name in chunks} for i in range(count)]


EXAMPLES = 64  # that probes see, unless the recipe says otherwise
BATCHES, LARGER = 32, 8  # how many batches are looked at for them, and how sizes grow


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


@contextmanager
def prefetched(make: Callable[[int], T], first: int, last: int, depth: int = 4) -> Iterator[Iterator[T]]:
    """make(first) .. make(last - 1), computed ahead by a thread while the device trains."""
    pool = ThreadPoolExecutor(1)

    def items() -> Iterator[T]:
        ahead = deque(pool.submit(make, step) for step in range(first, min(first + depth, last)))
        for step in range(first + depth, last + depth):
            if ahead:
                yield ahead.popleft().result()
            if step < last:
                ahead.append(pool.submit(make, step))

    try:
        yield items()
    finally:
        pool.shutdown(cancel_futures=True)
