"""Runs that are over: results, curves and translations read from their directories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from ..options import evaluates
from ..tasks.measures import Metric, title_of
from ..training import TrainOptions
from ..training.directory import RunDirectory
from ..training.result import RunOutcome, RunResult
from .plan import Planned
from .records import Curve, Trial

POINTS = 200  # of a loss curve, at most


class Ended(NamedTuple):
    """A run that is over, its metric, and what its model wrote for each test split."""

    trial: Trial
    metric: Metric
    written: dict[str, list[str]]

    def summary(self) -> str:
        """The run in a few words."""
        if self.trial.test is None:
            return f"diverged at step {self.trial.steps}"
        figure = self.metric.format.format(self.trial.test[self.metric.name])
        return f"{title_of(self.metric)} {figure}, {self.trial.seconds:,.0f} s"


def read_ended(run: Planned, directory: RunDirectory, result: RunResult) -> Ended:
    """The run with this result, with what else its directory holds."""
    entries: dict[str, Any] = {one.name: getattr(result, one.name) for one in fields(RunOutcome)}
    entries |= read_curves(directory, result.metric.name, run.recipe.train)
    trial = Trial(**entries, scheme=run.scheme, setting=run.setting, folder=run.folder, arm=run.arm)
    splits = [split for split in result.splits or {} if split != "valid"]
    return Ended(trial, result.metric, {split: read_translations(directory, split) for split in splits})


def read_translations(directory: RunDirectory, split: str) -> list[str]:
    file = directory.translations / f"{split}.txt"
    if not file.is_file():
        raise ValueError(f"{file} is missing: delete {directory.path} to repeat the run")
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def read_curves(directory: RunDirectory, metric: str, options: TrainOptions) -> dict[str, Curve]:
    """The curves of a run; each point averages as many steps as it would in a run that did not break off."""
    logged, steps = directory.logged(), range(1, options.steps + 1)
    valid = sum(evaluates(options, step) for step in steps)
    train = sum(evaluates(options, step) or step % options.log_every == 0 for step in steps)

    def curve(split: str, key: str, whole: int) -> Curve:
        own = [(r["step"], r[key]) for r in logged if r["split"] == split and key in r]
        return thinned([(step, value) for step, value in own if math.isfinite(float(value))], whole)

    losses = {"train_loss": curve("train", "loss", train), "valid_loss": curve("valid", "loss", valid)}
    return {**losses, "valid_metric": curve("valid", metric, valid)}


def thinned(points: Sequence[tuple[int, float]], whole: int, most: int = POINTS) -> Curve:
    """The curve with neighbours averaged, in groups that would leave at most `most` of the `whole` run's points.

    The size of a group must not depend on how many points a run has: curves are compared step by step.
    """
    size = max(1, math.ceil(whole / most))
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return Curve(
        tuple(group[-1][0] for group in groups), tuple(math.fsum(v for _, v in group) / len(group) for group in groups)
    )
