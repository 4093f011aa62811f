"""Discretisation sensitivity of a trained network: schemes x sub-steps x step lengths, local errors, its limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...experiments.result import Result
from ...experiments.statistics import Estimate, share_interval
from ...inference.runs import Trained, open_run
from ...kernels.loss import IGNORED, shifted
from ...models import CausalConfig
from ...models.base import all_stacks
from ...support.provenance import Provenance, made
from ...support.typed import Inlined
from ...tasks import Batch, Metric
from ...tasks.pairs.translation import Translation
from ...training.progress import Counting
from .local_errors import LocalError, local_errors
from .problem import check_equation, problem_of
from .variations import Variation, Way, chosen_batches, fitting, in_double, majority, part_of, run_ways

FINE = 16  # sub-steps of the continuous limit
FACTORS = tuple(2 ** (k / 2) for k in range(-4, 5))  # of the step
SUBSTEPS = (1, 2, 4, 8)
LOCAL = tuple(2.0**-k for k in range(7))  # factors of the step at which local errors are measured
PROBED, PROBED_TOKENS = 16, 2048  # the most examples and tokens for local errors
EXAMPLES = 256


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
    own: Variation
    limit: Variation
    coarser: Variation
    ways: tuple[Variation, ...]
    longer: tuple[Variation, ...]
    errors: tuple[LocalError, ...]
    made: Inlined[Provenance]

    @property
    def middle(self) -> float:
        """The accuracy below which the network does not work."""
        return (self.own.accuracy + self.majority) / 2

    def stops(self, upwards: bool) -> float | None:
        """The first factor of the step, from 1 upwards or downwards, at which the network does not work."""
        own = sorted((one for one in self.longer if one.scheme is not None), key=lambda one: one.factor)
        side = [one for one in own if one.factor > 1] if upwards else [one for one in own if one.factor < 1][::-1]
        return next((one.factor for one in side if not one.accuracy >= self.middle), None)


def check_factors(factors: Sequence[float]) -> tuple[float, ...]:
    """The factors of the step in order, each once."""
    for one in factors:
        if not 0 < one < math.inf:
            raise ValueError(f"--steps: a step of {one:g} times its length is none: use numbers above 0.")
    return tuple(sorted(set(factors)))


def check_substeps(substeps: Sequence[int]) -> tuple[int, ...]:
    """The numbers of sub-steps in order, each once."""
    if not all(0 < one <= 1024 for one in substeps):
        given = ",".join(map(str, substeps))
        raise ValueError(f"--substeps {given}: give whole numbers from 1 to 1024, such as --substeps 1,2,4,8.")
    return tuple(sorted(set(substeps)))


def discretisation(
    path: Path,
    schemes: Sequence[str] = (),
    substeps: Sequence[int] = SUBSTEPS,
    factors: Sequence[float] = FACTORS,
    examples: int = EXAMPLES,
    data: Path | None = None,
    command: str | None = None,
    progress: Counting | None = None,
) -> Discretisation:
    """How the finished run in a directory depends on its discretisation, on examples of its validation split."""
    if examples < 1:
        raise ValueError(f"--examples {examples}: give at least 1.")
    run = open_run(path, data)
    if isinstance(run.task, Translation):
        raise ValueError(f"{path} is a translator, with two stacks: converge works on models with one.")
    [stack] = all_stacks(run.model)
    check_equation(stack.scheme)
    every = fitting(stack.scheme, schemes)
    batches = list(chosen_batches(run.task, examples))
    k, limit = stack.substeps, Way(None, FINE * stack.substeps)
    ways = [Way(s, n * k) for s in every for n in substeps]
    longer = [Way(s, n, f) for f in factors for s, n in ((stack.scheme, k), (None, limit_steps(f, k)))]
    fixed = [Way(stack.scheme, k), limit, Way(None, FINE * k // 2)]
    problems, tried = (lambda batch: problem_of(run.model, batch)), [*fixed, *ways, *longer]
    found, n = run_ways(problems, batches, tried, limit, run.task, progress)
    own, end, coarser, *rest = found
    errors, probed = errors_of(run, batches[0])
    return Discretisation(
        run=str(path), task=run.recipe.task, metric=run.task.metric, scheme=str(stack.scheme),
        layers=len(stack.layers), step=stack.step, substeps=k, examples=n, probed=probed,
        majority=majority(batches, lambda batch: labels_of(run, batch)), shared=share_interval(end.shared, n), own=own,
        limit=end, coarser=coarser, ways=tuple(rest[: len(ways)]), longer=tuple(rest[len(ways) :]),
        errors=tuple(errors), made=made(command),
    )  # fmt: skip


def limit_steps(factor: float, substeps: int) -> int:
    """Sub-steps of the continuous limit of longer or shorter steps."""
    return math.ceil(FINE / 2 * max(1.0, factor)) * substeps


@torch.no_grad()
def errors_of(run: Trained, batch: Batch) -> tuple[list[LocalError], int]:
    """Local errors in float64 on the first examples of a batch, and how many they are."""
    rows = max(1, min(PROBED, len(batch["labels"]), PROBED_TOKENS // run.task.length))
    return local_errors(problem_of(in_double(run.model), part_of(batch, rows)), LOCAL), rows


def labels_of(run: Trained, batch: Batch) -> Tensor:
    """The labels of a batch that are scored."""
    labels = batch["labels"]
    aligned = shifted(labels) if isinstance(run.model.config, CausalConfig) else labels
    return aligned[aligned != IGNORED]
