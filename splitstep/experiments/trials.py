"""Runs that are over: results, curves and translations read from their directories, and figures of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from ..options import evaluates
from ..tasks.measures import Metric, title_of
from ..training import TrainOptions
from ..training.directory import RunDirectory
from ..training.result import RunOutcome, RunResult
from .experiment import Experiment, Observation, Quantity, Setting
from .plan import Planned, Role
from .statistics import Bounds

POINTS = 200  # of a loss curve, at most
OF_PLAN = ("scheme", "setting", "seed", "folder", "arm", "alone", "budget", "role")  # what a trial has of its plan


class Curve(NamedTuple):
    """A figure against the step."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Trial(RunOutcome):
    """One run: a scheme with a setting of the sweep and a seed."""

    scheme: str
    setting: Setting
    folder: str  # relative to the comparison's own
    train_loss: Curve
    valid_loss: Curve
    valid_metric: Curve
    arm: str = ""  # of an ablation; older documents have none
    alone: bool = False  # whether the arm names its row without the scheme
    budget: float = 1.0  # its steps, in those of the recipe
    role: Role = ""  # what it was for, if it is not compared itself


class RunRecord(NamedTuple):
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


def outcome_of(run: RunOutcome) -> dict[str, Any]:
    """How a run ended, as entries of another record of it."""
    return {one.name: getattr(run, one.name) for one in fields(RunOutcome)}


def read_ended(run: Planned, directory: RunDirectory, result: RunResult) -> RunRecord:
    """The run with this result, with what else its directory holds."""
    entries = {**outcome_of(result), **read_curves(directory, result.metric.name, run.recipe.train)}
    own = {name: getattr(run, name) for name in OF_PLAN}
    trial = Trial(**{**entries, **own})
    splits = [split for split in result.splits or {} if split != "valid"]
    return RunRecord(trial, result.metric, {split: read_translations(directory, split) for split in splits})


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
        own = [(r["step"], r[key]) for r in logged if r.get("split") == split and key in r]
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


def figure_on(split: str, metric: Metric) -> Quantity[Trial]:
    """A metric on a split of data."""
    bounds = Bounds(metric.least, metric.greatest)
    return Quantity(lambda one: (getattr(one, split) or {}).get(metric.name), bounds, metric.higher_is_better)


LOSS = Metric("loss", False, "{:.3f}")


def loss_on(split: str) -> Quantity[Trial]:
    """The loss on a split: of the kept weights if it is held out, on `train` over the last tenth of the steps."""
    return Quantity(last_losses) if split == "train" else figure_on(split, LOSS)


def last_losses(trial: Trial) -> float | None:
    """The mean training loss over the last tenth of the steps, or the last one logged."""
    curve = trial.train_loss
    values = [value for step, value in zip(*curve, strict=True) if step > 0.9 * trial.steps] or curve.values[-1:]
    return math.fsum(values) / len(values) if values else None


def observed(trials: Iterable[Trial]) -> list[Observation[Trial]]:
    """Trials of an experiment in which the scheme and what differs besides it make the arm, and seeds are the units."""
    return [Observation(f"{t.scheme}|{t.arm}", t.seed, t.setting, t.status == "finished", t) for t in trials]


def experiment_of(trials: Iterable[Trial], metric: Metric) -> Experiment[Trial]:
    """The experiment in which a metric on validation chooses, and runs without a test figure have failed."""
    return Experiment(observed(trials), figure_on("valid", metric), (figure_on("test", metric),))
