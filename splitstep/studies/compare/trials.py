"""Runs that are over: results, curves and translations read from their directories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from ...tasks.task import Metric, title_of
from ...training import TrainOptions, read_recipe
from ...training.directory import RunDirectory
from ...training.recipe import evaluates
from ...training.run_result import RunResult
from .plan import Planned
from .result import Curve, Trial

POINTS = 200  # of a loss curve, at most


class Output(NamedTuple):
    """What a study needs of a run that is over: its result, its curves and what its model wrote for the test splits."""

    result: RunResult
    curves: dict[str, Curve]
    written: dict[str, list[str]]


def output_of(directory: RunDirectory, result: RunResult) -> Output:
    """What a directory holds of the run with this result."""
    splits = [split for split in result.splits or {} if split != "valid"]
    written = {split: read_translations(directory, split) for split in splits}
    options = read_recipe(result.recipe, str(directory.path)).train
    return Output(result, read_curves(directory, result.metric.name, options), written)


def read_translations(directory: RunDirectory, split: str) -> list[str]:
    file = directory.translations / f"{split}.txt"
    if not file.is_file():
        raise ValueError(f"{file} is missing: delete {directory.path}, so that the run is done again")
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def read_curves(directory: RunDirectory, metric: str, options: TrainOptions) -> dict[str, Curve]:
    """The curves of a run, all points of which stand for as many steps as those of one that came to its end."""
    logged, steps = directory.logged(), range(1, options.steps + 1)
    valid = sum(evaluates(options, step) for step in steps)
    train = sum(evaluates(options, step) or step % options.log_every == 0 for step in steps)
    columns = {
        "train_loss": ("train", "loss", train), "valid_loss": ("valid", "loss", valid),
        "valid_metric": ("valid", metric, valid),
    }  # fmt: skip
    return {
        name: thinned(
            [(r["step"], r[key]) for r in logged if r["split"] == split and math.isfinite(float(r.get(key, math.nan)))],
            whole,
        )
        for name, (split, key, whole) in columns.items()
    }


def thinned(points: Sequence[tuple[int, float]], whole: int, most: int = POINTS) -> Curve:
    """The curve with neighbours averaged, as many together as leave few enough of the `whole`: a run that broke off has
    fewer points than another, and must not be averaged over other steps where both are compared."""
    size = max(1, math.ceil(whole / most))
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return Curve(
        tuple(group[-1][0] for group in groups), tuple(math.fsum(v for _, v in group) / len(group) for group in groups)
    )


def trial_of(run: Planned, output: Output) -> Trial:
    """The run as the study's result holds it."""
    known = {f.name for f in fields(Trial)} & {f.name for f in fields(RunResult)}
    entries: dict[str, Any] = {name: getattr(output.result, name) for name in known} | output.curves
    asked = {"scheme": run.scheme, "setting": run.setting, "seed": run.seed, "folder": run.folder}
    return Trial(**{**entries, **asked, "splits": output.result.splits or {}})


def run_summary(trial: Trial, metric: Metric) -> str:
    """A run in a few words."""
    if trial.test is None:
        return f"diverged at step {trial.steps}"
    return f"{title_of(metric)} {metric.format.format(trial.test[metric.name])}, {trial.seconds:,.0f} s"
