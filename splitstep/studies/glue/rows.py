"""Runs summed up: scores as GLUE's leaderboard has them, a figure for each body, then means over bodies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ...experiments.experiment import ByUnit, Difference, Experiment, Observation, Quantity, by_unit, difference
from ...experiments.statistics import Bounds, Estimate, estimate, paired_difference
from ...tasks.glue import PARTS
from ...tasks.measures import F1_ACCURACY, PEARSON, class_figures
from ...tasks.sentences import Sentences
from .bodies import Body
from .result import LOSS, MEAN, FineTuning, Kind, Majority, OnTask, Row, title_of

DEFAULT = ("cola", "sst2", "mrpc", "rte", "stsb")
APART = frozenset({"wnli"})  # never in the mean
POINTS = 100.0


def figures_of(task: str) -> tuple[str, ...]:
    """The figures that a task's score is the mean of."""
    metric = PARTS[task].metric
    return {F1_ACCURACY: ("f1", "accuracy"), PEARSON: ("pearson", "spearman")}.get(metric, (metric.name,))


def points(figures: Mapping[str, float] | None, names: Sequence[str]) -> float:
    """The mean of these figures in points; NaN if one is missing."""
    return POINTS * math.fsum((figures or {}).get(name, math.nan) for name in names) / len(names)


def score_on(run: FineTuning, split: str = "test") -> float:
    """A run's score on a split; `test` is the published dev set."""
    return points(getattr(run, split), figures_of(run.task))


def bounds_of(*tasks: str) -> Bounds:
    """The least and the greatest mean of these tasks' scores."""
    least = [POINTS * (PARTS[task].metric.least or 0.0) for task in tasks]
    return Bounds(fmean(least), POINTS) if tasks else Bounds()


class ByBody(NamedTuple):
    """A figure of bodies by their pre-training seeds, and the least and the greatest value that it can have."""

    values: ByUnit
    bounds: Bounds

    def mean(self) -> Estimate | None:
        """The mean over bodies."""
        return estimate(list(self.values.values()), bounds=self.bounds)

    def minus(self, other: ByBody) -> Estimate | None:
        """The mean difference, body by body."""
        return paired_difference(self.values, other.values, self.bounds)


class Arm:
    """The networks of one name, pre-trained or from scratch: each body has the mean of its fine-tunings. `valid`
    chooses the setting of each task; dev decides nothing."""

    def __init__(
        self, name: str, kind: Kind, runs: Sequence[FineTuning], bodies: Sequence[Body], in_mean: Sequence[str]
    ) -> None:
        self.kind: Kind = kind
        self.name, self.title, self.in_mean = name, title_of(name, kind), in_mean
        self.bodies = [body for body in bodies if body.name == name]
        own = [
            Observation(self.title, run.body, run.setting, run.status == "finished", run, run.task)
            for run in runs
            if (run.name, run.kind) == (name, kind)
        ]
        experiment = Experiment(own, Quantity(lambda run: score_on(run, "valid")))
        self.runs = {task: experiment.of(self.title, task) for task in dict.fromkeys(run.block for run in own)}

    def on(self, task: str, *names: str) -> ByBody:
        """The score on a task, or the mean of the figures that are named, in points."""
        bounds = bounds_of(task)
        quantity = Quantity[FineTuning](lambda run: points(run.test, names or figures_of(task)), bounds)
        return ByBody(by_unit(self.runs[task], quantity), bounds)

    def mean(self, without: str = "") -> ByBody:
        """The mean over tasks of each body that has a score on all of them; one task may be left out."""
        tasks = [task for task in self.in_mean if task != without]
        found = [self.on(task).values for task in tasks]
        bodies = sorted(set.intersection(*map(set, found))) if found else []
        return ByBody({body: fmean(scores[body] for scores in found) for body in bodies}, bounds_of(*tasks))

    def held_out(self, figure: str, unit: float = 1.0, greatest: float | None = None) -> ByBody:
        """A figure of pre-trained bodies on held-out text, as far as it is known."""
        bodies = self.bodies if self.kind == "pre-trained" else []
        found = {body.seed: unit * (body.held_out or {}).get(figure, math.nan) for body in bodies}
        known = {seed: value for seed, value in sorted(found.items()) if math.isfinite(value)}
        return ByBody(known, Bounds(0.0, greatest))

    def figures(self) -> dict[str, ByBody]:
        """All that differences are taken in, by what it is called."""
        found = {MEAN: self.mean()} if self.in_mean else {}
        found |= {task: self.on(task) for task in self.runs}
        found |= {f"{task} pearson": self.on(task, "pearson") for task in self.runs if "pearson" in figures_of(task)}
        return found | ({LOSS: self.held_out("loss")} if self.kind == "pre-trained" else {})

    def on_task(self, task: str) -> OnTask:
        runs = self.runs[task]
        finished = sum(run.finished for run in runs)
        figures = {name: found for name in figures_of(task) if (found := self.on(task, name).mean()) is not None}
        return OnTask(task, runs[0].setting, finished, len(runs) - finished, self.on(task).mean(), figures)

    def row(self) -> Row:
        return Row(
            name=self.name,
            scheme=self.bodies[0].scheme,
            kind=self.kind,
            parameters=next(iter(self.runs.values()))[0].run.cost.parameters,
            tasks=tuple(self.on_task(task) for task in self.runs),
            mean=self.mean().mean(),
            masked_loss=self.held_out("loss").mean(),
            masked_accuracy=self.held_out("accuracy", POINTS, POINTS).mean(),
        )


def differences(arms: Sequence[Arm], base: str) -> list[Difference]:
    """Every other name minus the base, and every name minus itself from scratch."""
    trained = {arm.name: arm for arm in arms if arm.kind == "pre-trained"}
    pairs = [(arm, trained[base]) for name, arm in trained.items() if name != base]
    pairs += [(trained[arm.name], arm) for arm in arms if arm.kind == "scratch"]
    return [one for of, to in pairs for one in between(of, to)]


def between(of: Arm, to: Arm) -> list[Difference]:
    """The differences of two arms in every figure that both have."""
    ours, theirs = of.figures(), to.figures()
    return [
        difference(what, of.title, to.title, one.values, theirs[what].values, one.bounds)
        for what, one in ours.items()
        if what in theirs
    ]


def without_each(of: Arm, to: Arm) -> dict[str, Estimate | None]:
    """The difference of two arms in the mean of all tasks but one, by that task."""
    return {task: of.mean(task).minus(to.mean(task)) for task in of.in_mean}


def majority_of(name: str, task: Sentences) -> Majority:
    """What the commonest class of the training set gives on the published dev set; of numbers, any constant."""
    names = figures_of(name)
    if not task.labels:
        found = dict.fromkeys(names, 0.0)
    else:
        counts = np.bincount(task.examples["train"].labels, minlength=len(task.labels))
        found = constant_figures(int(counts.argmax()), task.examples["test"].labels, len(task.labels))
    return Majority(name, points(found, names), {one: POINTS * found[one] for one in names})


def constant_figures(guess: int, labels: np.ndarray, classes: int) -> dict[str, float]:
    """The figures of a classifier that always says the same."""
    right, n = float((labels == guess).sum()), float(len(labels))
    sums = {"nll": math.nan, "correct": right, "examples": n}
    if classes == 2:
        wrong = n - right
        positive = {"tp": right, "fp": wrong, "tn": 0.0, "fn": 0.0}
        sums |= positive if guess == 1 else {"tp": 0.0, "fp": 0.0, "tn": right, "fn": wrong}
    return class_figures(sums)
