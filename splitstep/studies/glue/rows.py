"""Runs summed up: a figure for each body, which is the mean of its fine-tunings, then means over bodies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from ...experiments.experiment import (
    Difference,
    Experiment,
    Observation,
    Quantity,
    by_unit,
    difference,
    over_units,
)
from ...experiments.statistics import Bounds, Estimate, estimate, paired_difference
from .bodies import Body
from .result import LOSS, MEAN, Kind, OnTask, Row, Tuned, title_of
from .scores import POINTS, bounds_of, figures_of, score_of


def score_on(run: Tuned, split: str = "test") -> float:
    return score_of(run.task, getattr(run, split) or {})


def score(task: str) -> Quantity[Tuned]:
    return Quantity(score_on, bounds_of(task))


def figure(task: str, name: str) -> Quantity[Tuned]:
    """A figure on the published dev set, in points."""
    return Quantity(lambda run: POINTS * (run.test or {}).get(name, math.nan), bounds_of(task))


def experiment_of(runs: Iterable[Tuned]) -> Experiment[Tuned]:
    """The experiment whose units are bodies, each with the mean of its fine-tunings, and whose blocks are tasks. The
    score on `valid` chooses settings; dev decides nothing."""
    return Experiment(
        [
            Observation(title_of(run.name, run.kind), run.body, run.setting, run.status == "finished", run, run.task)
            for run in runs
        ],
        Quantity(lambda run: score_on(run, "valid")),
    )


class Grouped:
    """The runs of one row, at the setting that was chosen for each task."""

    def __init__(self, name: str, kind: Kind, runs: Sequence[Tuned], in_mean: Sequence[str]) -> None:
        own = [run for run in runs if (run.name, run.kind) == (name, kind)]
        self.name, self.in_mean, self.title = name, tuple(in_mean), title_of(name, kind)
        self.kind: Kind = kind
        experiment = experiment_of(own)
        self.runs = {task: experiment.of(self.title, task) for task in dict.fromkeys(run.task for run in own)}

    def scores(self, task: str) -> dict[int, float]:
        return by_unit(self.runs[task], score(task))

    def means(self, without: str = "") -> dict[int, float]:
        """The mean over tasks of each body that has a score on all of them; one task may be left out."""
        found = [self.scores(task) for task in self.in_mean if task != without]
        bodies = set.intersection(*map(set, found)) if found else set[int]()
        return {body: fmean(scores[body] for scores in found) for body in sorted(bodies)}

    def on_task(self, task: str) -> OnTask:
        runs = self.runs[task]
        finished = sum(run.finished for run in runs)
        figures = {
            name: found for name in figures_of(task) if (found := over_units(runs, figure(task, name))) is not None
        }
        lost = len(runs) - finished
        return OnTask(task, runs[0].setting, finished, lost, over_units(runs, score(task)), figures)

    def row(self, bodies: Sequence[Body]) -> Row:
        first = next(iter(self.runs.values()))[0].run
        own = [body for body in bodies if body.name == self.name] if self.kind == "pre-trained" else []
        return Row(
            name=self.name,
            scheme=next(body.scheme for body in bodies if body.name == self.name),
            kind=self.kind,
            parameters=first.cost.parameters,
            tasks=tuple(self.on_task(task) for task in self.runs),
            mean=estimate(list(self.means().values()), bounds=mean_bounds(self.in_mean)),
            masked_loss=estimate(list(held_out(own, "loss").values()), bounds=Bounds(0.0)),
            masked_accuracy=estimate(
                [POINTS * x for x in held_out(own, "accuracy").values()], bounds=Bounds(0.0, POINTS)
            ),
        )


def mean_bounds(tasks: Sequence[str]) -> Bounds:
    """The least and the greatest mean over tasks."""
    least = [bounds_of(task).least for task in tasks]
    return Bounds(fmean(one for one in least if one is not None), POINTS) if least else Bounds()


def held_out(bodies: Iterable[Body], figure: str) -> dict[int, float]:
    """A figure of the bodies on held-out text, by seed, as far as it is known."""
    found = {body.seed: (body.held_out or {}).get(figure, math.nan) for body in bodies}
    return {seed: value for seed, value in sorted(found.items()) if math.isfinite(value)}


def differences(groups: Sequence[Grouped], bodies: Sequence[Body], base: str) -> list[Difference]:
    """Every other name minus the base, and every name minus itself from scratch."""
    trained = {group.name: group for group in groups if group.kind == "pre-trained"}
    scratch = {group.name: group for group in groups if group.kind == "scratch"}
    pairs = [(group, trained[base]) for name, group in trained.items() if name != base]
    found = [one for of, to in pairs for one in [*between(of, to), masked_losses(of, to, bodies)]]
    return found + [one for name, to in scratch.items() for one in between(trained[name], to)]


def between(of: Grouped, to: Grouped) -> list[Difference]:
    """The differences of two rows in the mean and on every task."""
    mean = [difference(MEAN, of.title, to.title, of.means(), to.means(), mean_bounds(of.in_mean))] if of.in_mean else []
    tasks = [
        difference(task, of.title, to.title, of.scores(task), to.scores(task), bounds_of(task)) for task in of.runs
    ]
    return [*mean, *tasks, *by_figure(of, to, "pearson")]


def without_each(of: Grouped, to: Grouped) -> dict[str, Estimate | None]:
    """The difference of two rows in the mean of all tasks but one, by that task."""
    rest = {left: [task for task in of.in_mean if task != left] for left in of.in_mean}
    return {left: paired_difference(of.means(left), to.means(left), mean_bounds(tasks)) for left, tasks in rest.items()}


def by_figure(of: Grouped, to: Grouped, name: str) -> list[Difference]:
    """The difference in one figure of the tasks whose score is the mean of it and another."""
    found = list[Difference]()
    for task in of.runs:
        if name in figures_of(task):
            own, other = (by_unit(group.runs[task], figure(task, name)) for group in (of, to))
            found.append(difference(f"{task} {name}", of.title, to.title, own, other, bounds_of(task)))
    return found


def masked_losses(of: Grouped, to: Grouped, bodies: Sequence[Body]) -> Difference:
    own, other = (held_out([one for one in bodies if one.name == group.name], "loss") for group in (of, to))
    return difference(LOSS, of.title, to.title, own, other, Bounds())
