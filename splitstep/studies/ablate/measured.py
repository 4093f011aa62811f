"""Runs summed up: each arm at its own rate and at the full arm's, and the full network replayed without its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...experiments.arms import ARMS, FULL
from ...experiments.experiment import Sample, sample
from ...experiments.statistics import Bounds
from ...experiments.trials import Trial, figure_on, observed
from ...inference.runs import find_run
from ...models import rebuilt
from ...probes import observe
from ...tasks import Metric, Task
from ...training import Recipe, evaluate
from ...training.evaluate import evaluating
from ...training.objective import EXAMPLES, first_examples
from ...training.update import autocast
from . import watched
from .result import LACKING, Lost, Outcome, Replayed, setting_of
from .watched import Values, Watched


def outcomes_of(
    trials: Sequence[Trial], own: Mapping[str, float], metric: Metric, out: Path
) -> dict[str, tuple[Outcome, Outcome]]:
    """Each arm at its own rate and at the full arm's. Differences are to the full arm at its own rate."""
    every = [watched.read_watched(trial, out) for trial in trials]

    def at_rate(arm: str, rate: float) -> list[Watched]:
        return [one for one in every if (one.trial.arm, one.trial.setting) == (arm, setting_of(rate))]

    full, found = at_rate(FULL, own[FULL]), dict[str, tuple[Outcome, Outcome]]()
    for arm, rate in own.items():
        runs, shared = at_rate(arm, rate), own[FULL]
        deciding = measured(runs, rate, full, metric)
        told = deciding if rate == shared else measured(at_rate(arm, shared), shared, full, metric)
        found[arm] = replace(deciding, series=watched.series(runs, full)), told
    return found


def measured(runs: Sequence[Watched], rate: float, full: Sequence[Watched], metric: Metric) -> Outcome:
    """One arm at one rate."""
    trials, test, alone = [run.trial for run in runs], figure_on("test", metric), list(runs) == list(full)
    own = observed(trials)
    tested = sample(own, test)
    cka, base = watched.CKA.of(runs, full), watched.CKA.of(full, full)
    names = dict.fromkeys(name for run in runs for name in run.figures)
    profiles = {name: watched.profile_of(last for run in runs if (last := run.last(name))) for name in names}
    profiles |= {
        "cka": watched.profile_of(cka.values()),
        "cosine": watched.profile_of(watched.COSINE.of(runs, full).values()),
    }
    return Outcome(
        rate=rate,
        finished=sum(trial.status == "finished" for trial in trials),
        lost=tuple(Lost(trial.seed, trial.diverged) for trial in trials if trial.diverged is not None),
        test=tested.mean(),
        valid=sample(own, figure_on("valid", metric)).mean(),
        difference=None if alone else tested.minus(sample(observed(one.trial for one in full), test)),
        drift=watched.over_seeds((run.last("drift")[-1] for run in runs if run.last("drift")), Bounds(-1.0, 1.0)),
        growth=watched.over_seeds(map(largest_growth, runs), Bounds(0.0)),
        not_finite=sum(not_finite(run.trial) or largest_growth(run) == math.inf for run in runs),
        alignment=None if alone else watched.over_seeds(alignments(cka, base)),
        profiles={name: found for name, found in profiles.items() if found},
        maps=watched.head_maps(runs, full),
    )


def largest_growth(run: Watched) -> float:
    """The growth of the gradient per layer, at the record where it is largest; NaN if there is none."""
    found = [value for values in run.figures.get("growth", {}).values() for value in values if not math.isnan(value)]
    return max(found, default=math.nan)


def not_finite(trial: Trial) -> bool:
    """Whether a run ended with a loss or a gradient that is not finite."""
    lost = trial.diverged
    return lost is not None and not (math.isfinite(lost.loss) and math.isfinite(lost.gradient_norm))


def alignments(cka: Mapping[int, Values], base: Mapping[int, Values]) -> Iterator[float]:
    """The mean over layers of CKA with the full arm minus that of two seeds of it; layer 0 is the input."""

    def mean(values: Values) -> float:
        return math.fsum(values[1:]) / len(values[1:]) if values[1:] else math.nan

    return (mean(values) - mean(base[seed]) for seed, values in cka.items() if seed in base)


class Likened(NamedTuple):
    """What is left of one network: its test figure, and how alike its states and the full network's are."""

    structure: str
    seed: int
    test: float | None
    cosine: Values
    cka: Values


def replay(recipe: Recipe, task: Task, full: Sequence[Trial], out: Path) -> tuple[Replayed, ...]:
    """The trained full network's own operators without its residuals, its norms or both, over the seeds that finished.
    What does not fit its scheme is left out."""
    runs = [trial for trial in full if trial.status == "finished"]
    found = [one for trial in runs for one in replay_run(recipe, task, trial, out)]
    quantity = figure_on("test", task.metric)
    whole, replayed = sample(observed(runs), quantity), list[Replayed]()
    for name in LACKING:
        if own := [one for one in found if one.structure == name]:
            test = {one.seed: one.test for one in own if one.test is not None and math.isfinite(one.test)}
            left = Sample(test, quantity.bounds)
            alike = (watched.profile_of(getattr(one, kind) for one in own) for kind in ("cosine", "cka"))
            replayed.append(Replayed(name, left.mean(), left.minus(whole), *alike))
    return tuple(replayed)


def replay_run(recipe: Recipe, task: Task, trial: Trial, out: Path) -> Iterator[Likened]:
    """One trained network without each of the structures."""
    model, precision = find_run(out / trial.folder).load_model()
    examples = first_examples(task, recipe.train.probe_batch or EXAMPLES)
    batch = {name: x.to(model.device) for name, x in examples.items()}
    states = states_of(model, batch, precision)
    size = recipe.train.evaluate_batch or recipe.train.batch
    for name in LACKING:
        try:
            changes = ARMS[name](recipe)
            other = rebuilt.replayed(model, scheme=changes.get("scheme"), norm=changes.get("model.norm")).eval()
        except ValueError:  # such weights cannot be run so
            continue
        theirs = states_of(other, batch, precision)
        test = evaluate(other, task, task.tests[0], size, precision).get(task.metric.name)
        yield Likened(name, trial.seed, test, watched.cosine_layers(theirs, states), watched.cka_layers(theirs, states))


def states_of(model: Any, batch: Mapping[str, Tensor], precision: torch.dtype) -> Tensor:
    """The states of a fixed choice of tokens in each layer [L + 1, N, width]."""
    with evaluating(model), autocast(precision, model.device):
        found = observe(model, batch, ["states"])["states"]
    tokens = list(found.values())[-1]["tokens"]
    assert isinstance(tokens, Tensor)
    return tokens.float().cpu()
