"""Replay: a trained network's own operators without its residuals, without its norms or without both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...experiments.arms import ARMS, Assignments
from ...experiments.statistics import Bounds, estimate, paired_difference
from ...experiments.trials import Trial
from ...inference.runs import find_run
from ...models.rebuilt import replayed
from ...probes import observe
from ...tasks import Task
from ...training import Recipe, evaluate
from ...training.evaluate import evaluating
from ...training.log import EXAMPLES, first_examples
from ...training.update import autocast
from .pairs import cka_layers, cosine_layers
from .records import Values, profile_of
from .result import Replayed

STRUCTURES = ("no-residual", "no-norm", "neither")


class Seen(NamedTuple):
    """What is left of one network: its test figure, and how alike its states and the full network's are."""

    test: float
    full: float  # the full network's own test figure
    cosine: Values
    cka: Values


def replay(recipe: Recipe, task: Task, full: Sequence[Trial], out: Path) -> tuple[Replayed, ...]:
    """Each structure over the seeds of the full network that finished. One that does not fit its scheme is left out."""
    structures: dict[str, Assignments] = {}
    for name in STRUCTURES:
        with suppress(ValueError):
            structures[name] = ARMS[name](recipe)
    seen: dict[str, dict[int, Seen]] = {name: {} for name in structures}
    for trial in full:
        if trial.status == "finished":
            for name, one in replay_run(recipe, task, trial, structures, out):
                seen[name][trial.seed] = one
    return tuple(summed_up(name, found, task) for name, found in seen.items() if found)


def replay_run(
    recipe: Recipe, task: Task, trial: Trial, structures: Mapping[str, Assignments], out: Path
) -> Iterable[tuple[str, Seen]]:
    """One trained network under each structure."""
    model, precision = find_run(out / trial.folder).load_model()
    examples = first_examples(task, recipe.train.probe_batch or EXAMPLES)
    batch = {name: x.to(model.device) for name, x in examples.items()}
    states = states_of(model, batch, precision)
    size, metric = recipe.train.evaluate_batch or recipe.train.batch, task.metric.name
    for name, changes in structures.items():
        try:
            other = replayed(model, scheme=changes.get("scheme"), norm=changes.get("model.norm")).eval()
        except ValueError:  # such weights cannot be run so
            continue
        theirs = states_of(other, batch, precision)
        figures = evaluate(other, task, task.tests[0], size, precision)
        own = (trial.test or {}).get(metric, math.nan)
        seen = Seen(figures.get(metric, math.nan), own, cosine_layers(theirs, states), cka_layers(theirs, states))
        yield name, seen


def states_of(model: Any, batch: Mapping[str, Tensor], precision: torch.dtype) -> Tensor:
    """The states of a fixed choice of tokens in each layer [L + 1, N, width]."""
    with evaluating(model), autocast(precision, model.device):
        found = observe(model, batch, ["states"])["states"]
    tokens = list(found.values())[-1]["tokens"]
    assert isinstance(tokens, Tensor)
    return tokens.float().cpu()


def summed_up(name: str, found: Mapping[int, Seen], task: Task) -> Replayed:
    """One structure over the seeds."""
    bounds = Bounds(task.metric.least, task.metric.greatest)
    test, full = ({s: v for s, v in each.items() if math.isfinite(v)} for each in (
        {seed: one.test for seed, one in found.items()}, {seed: one.full for seed, one in found.items()}
    ))  # fmt: skip
    return Replayed(
        name,
        estimate(list(test.values()), bounds=bounds),
        paired_difference(test, full, bounds),
        profile_of(one.cosine for one in found.values()),
        profile_of(one.cka for one in found.values()),
    )
