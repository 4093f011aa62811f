"""Ways to run the same network, and what each changes: its output, its predictions, its accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...models import SplitstepModel
from ...scheme import Scheme
from ...schemes import SCHEMES, scheme
from ...support.typed import Figure
from ...tasks import Batch, Task
from ...training.progress import Counting
from .problem import Problem

TRIED = ("lie", "parallel", "strang", "strang-midpoint", "heun", "rk4")  # of which those are run that fit the fields
BATCH = 32
MOST_TOKENS = 8192  # of all examples


class Way(NamedTuple):
    """A way to run the network's fields: by a scheme, or (None) by their continuous limit. `merged` neighbouring layers
    are one step."""

    scheme: Scheme | None
    substeps: int
    factor: float = 1.0
    merged: int = 1

    def end(self, problem: Problem) -> Tensor:
        if self.scheme is None:
            return problem.limit(self.substeps, self.factor)
        return problem.end(self.scheme, self.substeps, self.factor, self.merged)


class Variation(NamedTuple):
    """What a way changes. `change` and `distance` are of the centred logits, relative, to the network's own and to
    those of its continuous limit; `kl` is in nats per prediction, from the network's own; `shared` is the share of
    equal predictions. Without a scheme it is the continuous limit."""

    scheme: str | None
    substeps: int
    factor: float
    change: Figure
    distance: Figure
    kl: Figure
    shared: Figure
    accuracy: Figure
    figure: Figure  # of the task's metric


@dataclass
class Tally:
    """Sums over batches, for one way."""

    sums: dict[str, float] = field(default_factory=dict[str, float])
    scores: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, logits: Tensor, own: Tensor, limit: Tensor, problem: Problem) -> None:
        """Compare the logits of one batch with those of the network and of its limit."""
        scored = torch.ones(own.shape[:-1], dtype=torch.bool) if problem.scored is None else problem.scored.cpu()
        each = scored.flatten(1).sum(1).clamp(min=1) if scored.ndim > 1 else scored.long()
        equal = ((logits.argmax(-1) == own.argmax(-1)) & scored).reshape(len(own), -1).sum(1) / each
        self.count("examples", len(own))
        self.count("shared", float(equal.sum()))
        self.count("predictions", float(scored.sum()))
        self.count("kl", float(divergence(own, logits)[scored].sum()))
        mine, theirs, end = (centred(one)[scored] for one in (logits, own, limit))
        for name, value in (("change", mine - theirs), ("own", theirs), ("distance", mine - end), ("limit", end)):
            self.count(name, float(value.square().sum()))

    def count(self, name: str, value: float) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + value

    def score(self, found: Mapping[str, float]) -> None:
        for name, value in found.items():
            self.scores[name] = self.scores.get(name, 0.0) + float(value)

    def variation(self, way: Way, task: Task) -> Variation:
        s, figures = self.sums, task.summary(self.scores)
        return Variation(
            None if way.scheme is None else str(way.scheme), way.substeps, way.factor,
            change=(s["change"] / s["own"]) ** 0.5, distance=(s["distance"] / s["limit"]) ** 0.5,
            kl=s["kl"] / s["predictions"], shared=s["shared"] / s["examples"], accuracy=figures["accuracy"],
            figure=figures[task.metric.name],
        )  # fmt: skip


def centred(logits: Tensor) -> Tensor:
    """Logits minus their mean: a constant changes no prediction."""
    return logits.double() - logits.double().mean(-1, keepdim=True)


def divergence(own: Tensor, other: Tensor) -> Tensor:
    """KL(own | other) of each prediction, in nats."""
    p, q = own.double().log_softmax(-1), other.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def fitting(own: Scheme, texts: Sequence[str]) -> list[Scheme]:
    """The network's own scheme, then those given, or without any the usual ones that have the same fields."""
    if not texts:
        return [own, *(s for s in map(SCHEMES.__getitem__, TRIED) if s.fields == own.fields and s != own)]
    given = [scheme(text) for text in texts]
    for one in given:
        if one.replaces or one.projections or set(one.fields) != set(own.fields):
            raise ValueError(
                f"--schemes: {str(one)!r} does not run the fields of this network, {', '.join(own.fields)}, with parts "
                "that all add: use schemes of these fields."
            )
    return list(dict.fromkeys([own, *given]))


def chosen_batches(task: Task, examples: int) -> Iterator[Batch]:
    """Batches evenly from the validation split: at most so many examples, and so many tokens."""
    size = min(BATCH, examples)
    number = sum(1 for _ in task.batches("valid", size))
    wanted = max(1, min(number, examples // size, MOST_TOKENS // (size * task.length)))
    return islice(task.batches("valid", size), 0, number // wanted * wanted, number // wanted)


@torch.no_grad()
def run_ways(
    problems: Callable[[Batch], Problem],
    batches: Sequence[Batch],
    ways: Sequence[Way],
    limit: Way,
    task: Task,
    progress: Counting | None = None,
) -> tuple[list[Variation], int]:
    """What each way changes over all batches, and the number of examples."""
    tallies, examples, done = [Tally() for _ in ways], 0, 0
    for batch in batches:
        problem = problems(batch)
        own, end = (problem.finish(x).cpu() for x in (problem.end(), limit.end(problem)))
        examples += len(own)
        for way, tally in zip(ways, tallies, strict=True):
            logits = problem.finish(way.end(problem)).cpu()
            tally.add(logits, own, end, problem)
            tally.score(task.score(logits, batch))
            done += 1
            if progress is not None:
                progress(done, len(batches) * len(ways))
    return [tally.variation(way, task) for way, tally in zip(ways, tallies, strict=True)], examples


def majority(batches: Sequence[Batch], scored: Callable[[Batch], Tensor]) -> float:
    """The accuracy of always naming the most frequent label; `scored` returns the labels that count."""
    labels = torch.cat([scored(batch) for batch in batches])
    return float(labels.bincount().max()) / len(labels)


def part_of(batch: Batch, rows: int) -> Batch:
    return {name: x[:rows] for name, x in batch.items()}


def in_double(model: SplitstepModel) -> Any:
    """A copy of the model in float64."""
    from copy import deepcopy

    return deepcopy(model).double()
