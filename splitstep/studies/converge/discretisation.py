"""Discretisation sensitivity of a trained network: schemes x sub-steps x step lengths, local errors, its limit."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...experiments.result import Result
from ...experiments.statistics import Estimate, share_interval
from ...inference.runs import Trained, open_run
from ...kernels.loss import IGNORED
from ...models.base import SplitstepModel, all_stacks
from ...support.provenance import Provenance, made_by_study
from ...support.typed import Figure, Inlined
from ...tasks import Batch, Metric, Task
from ...tasks.pairs.translation import Translation
from ...training.progress import Counting
from .ways import LocalError, Problem, Way, fitting, labels_of, local_errors, problem_of, run_ways

FINE = 16  # sub-steps of the continuous limit
LOCAL = tuple(2.0**-k for k in range(7))  # factors of the step at which local errors are measured
PROBED, PROBED_TOKENS = 16, 2048  # the most examples and tokens for local errors
EXAMPLES = 256
BATCH = 32
MOST_TOKENS = 8192  # of all examples

Sums = Mapping[str, float]


class ExampleEffect(NamedTuple):
    """What a way changes on examples. `change` and `distance` are of the centred logits, relative, to the network's own
    and to those of its continuous limit; `kl` is in nats per prediction, from the network's own; `shared` is the share
    of equal predictions. Without a scheme it is the continuous limit."""

    scheme: str | None
    substeps: int
    factor: float
    change: Figure
    distance: Figure
    kl: Figure
    shared: Figure
    accuracy: Figure
    figure: Figure  # of the task's metric


@dataclass(frozen=True)
class Discretisation(Result):
    """The result of the study. `limit` is the continuous limit, and `coarser` the same by half the sub-steps: its
    error. `ways` are schemes x sub-steps; `longer` has the network and its limit at every factor of the step."""

    study = "discretisation"

    run: str
    task: str
    metric: Metric
    scheme: str
    layers: int
    step: float
    substeps: int
    examples: int
    probed: int  # examples of the local errors
    majority: float
    shared: Estimate  # predictions that the network and its limit have in common
    own: ExampleEffect
    limit: ExampleEffect
    coarser: ExampleEffect
    ways: tuple[ExampleEffect, ...]
    longer: tuple[ExampleEffect, ...]
    errors: tuple[LocalError, ...]
    made: Inlined[Provenance]

    @property
    def middle(self) -> float:
        """The accuracy below which the network does not work."""
        return (self.own.accuracy + self.majority) / 2

    @property
    def by_length(self) -> tuple[list[ExampleEffect], list[ExampleEffect]]:
        """The network at each factor of the step, and its limit."""
        own = [one for one in self.longer if one.scheme is not None]
        return own, [one for one in self.longer if one.scheme is None]

    def stops(self, upwards: bool) -> float | None:
        """The first factor of the step, from 1 upwards or downwards, at which the network does not work."""
        own = sorted(self.by_length[0], key=lambda one: one.factor, reverse=not upwards)
        side = [one for one in own if (one.factor > 1 if upwards else one.factor < 1)]
        return next((one.factor for one in side if not one.accuracy >= self.middle), None)


def discretisation(
    path: Path,
    schemes: Sequence[str] = (),
    *,
    substeps: Sequence[int],
    factors: Sequence[float],
    examples: int = EXAMPLES,
    data: Path | None = None,
    progress: Counting | None = None,
) -> Discretisation:
    """How the finished run in a directory depends on its discretisation, on examples of its validation split."""
    if examples < 1:
        raise ValueError(f"--examples {examples}: give at least 1.")
    run = open_run(path, data)
    if isinstance(run.task, Translation):
        raise ValueError(f"{path} is a translator, with two stacks: converge works on models with one.")
    [stack] = all_stacks(run.model)
    k, every = stack.substeps, fitting(stack.scheme, schemes)
    own, limit, coarser = Way(stack.scheme, k), Way(None, FINE * k), Way(None, FINE * k // 2)
    ways = [Way(one, n * k) for one in every for n in substeps]
    fine = {f: math.ceil(FINE / 2 * max(1.0, f)) * k for f in factors}  # sub-steps of the limits of longer steps
    longer = [way for f in factors for way in (own._replace(factor=f), Way(None, fine[f], f))]
    batches, tried = list(chosen_batches(run.task, examples)), [own, limit, coarser, *ways, *longer]
    problems, comparing = partial(problem_of, run.model), partial(compare, run.task)
    found = run_ways(problems, batches, tried, [None, limit], comparing, progress)
    effects = {way: effect_of(way, some, run.task) for way, some in found.items()}
    errors, probed = errors_of(run, batches[0])
    n = sum(len(batch["labels"]) for batch in batches)
    return Discretisation(
        run=str(path), task=run.recipe.task, metric=run.task.metric, scheme=str(stack.scheme),
        layers=len(stack.layers), step=stack.step, substeps=k, examples=n, probed=probed,
        majority=majority(run.model, batches), shared=share_interval(effects[limit].shared, n), own=effects[own],
        limit=effects[limit], coarser=effects[coarser], ways=tuple(effects[way] for way in ways),
        longer=tuple(effects[way] for way in longer), errors=tuple(errors), made=made_by_study(),
    )  # fmt: skip


def chosen_batches(task: Task, examples: int) -> Iterator[Batch]:
    """Batches evenly from the validation split: at most so many examples, and so many tokens."""
    size = min(BATCH, examples)
    number = sum(1 for _ in task.batches("valid", size))
    wanted = max(1, min(number, examples // size, MOST_TOKENS // (size * task.length)))
    return islice(task.batches("valid", size), 0, number // wanted * wanted, number // wanted)


def compare(
    task: Task, batch: Batch, problem: Problem, logits: Tensor, own: Tensor, limit: Tensor
) -> tuple[Sums, Sums]:
    """Sums over the examples of one batch: squares of differences of the logits to the network's own and its limit's,
    divergences and shares of equal predictions; and the scores of the task."""
    logits, own, limit = (one.cpu() for one in (logits, own, limit))
    scored = torch.ones(own.shape[:-1], dtype=torch.bool) if problem.scored is None else problem.scored.cpu()
    each = scored.flatten(1).sum(1).clamp(min=1) if scored.ndim > 1 else scored.long()
    equal = ((logits.argmax(-1) == own.argmax(-1)) & scored).reshape(len(own), -1).sum(1) / each
    mine, theirs, end = (centred(one)[scored] for one in (logits, own, limit))
    vectors = {"change": mine - theirs, "own": theirs, "distance": mine - end, "limit": end}
    sums = {
        "examples": len(own),
        "shared": float(equal.sum()),
        "predictions": float(scored.sum()),
        "kl": float(divergence(own, logits)[scored].sum()),
        **{name: float(value.square().sum()) for name, value in vectors.items()},
    }
    return sums, task.score(logits, batch)


def centred(logits: Tensor) -> Tensor:
    """Logits minus their mean: a constant changes no prediction."""
    return logits.double() - logits.double().mean(-1, keepdim=True)


def divergence(own: Tensor, other: Tensor) -> Tensor:
    """KL(own | other) of each prediction, in nats."""
    p, q = own.double().log_softmax(-1), other.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def effect_of(way: Way, found: Iterable[tuple[Sums, Sums]], task: Task) -> ExampleEffect:
    """What a way changes over all batches."""
    s, scores = ({name: sum(float(one[name]) for one in some) for name in some[0]} for some in zip(*found, strict=True))
    figures = task.summary(scores)
    return ExampleEffect(
        None if way.scheme is None else str(way.scheme), way.substeps, way.factor,
        change=(s["change"] / s["own"]) ** 0.5, distance=(s["distance"] / s["limit"]) ** 0.5,
        kl=s["kl"] / s["predictions"], shared=s["shared"] / s["examples"], accuracy=figures["accuracy"],
        figure=figures[task.metric.name],
    )  # fmt: skip


@torch.no_grad()
def errors_of(run: Trained, batch: Batch) -> tuple[list[LocalError], int]:
    """Local errors in float64 on the first examples of a batch, and how many they are."""
    rows = max(1, min(PROBED, len(batch["labels"]), PROBED_TOKENS // run.task.length))
    part = {name: x[:rows] for name, x in batch.items()}
    return local_errors(problem_of(deepcopy(run.model).double(), part), LOCAL), rows


def majority(model: SplitstepModel, batches: Sequence[Batch]) -> float:
    """The accuracy of always naming the most frequent label of those that are scored."""
    labels = [one for batch in batches if (one := labels_of(model, batch)) is not None]
    every = torch.cat([one[one != IGNORED] for one in labels])
    return float(every.bincount().max()) / len(every)
