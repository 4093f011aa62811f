"""Runs summed up: a figure for each body, which is the mean of its fine-tunings, then means over bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from ...experiments.records import Setting
from ...experiments.statistics import Bounds, Estimate, estimate, paired_difference
from .bodies import Body
from .result import LOSS, MEAN, Difference, Kind, OnTask, Row, Tuned
from .scores import POINTS, bounds_of, figures_of, score_of

ByBody = dict[int, float]  # a figure of each body, by its pre-training seed


def by_body(runs: Iterable[Tuned], figure: Callable[[Tuned], float]) -> ByBody:
    """The mean figure of each body's fine-tunings that finished with a finite one."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run.status == "finished" and math.isfinite(value := figure(run)):
            found.setdefault(run.body, []).append(value)
    return {body: fmean(values) for body, values in sorted(found.items())}


def score_on(run: Tuned, split: str = "test") -> float:
    return score_of(run.task, getattr(run, split) or {})


def figure_of(name: str) -> Callable[[Tuned], float]:
    return lambda run: POINTS * (run.test or {}).get(name, math.nan)


def choose_setting(runs: Sequence[Tuned]) -> Setting:
    """The setting with the fewest failed runs, then with the best mean score on `valid`; dev decides nothing."""

    def rank(setting: Setting) -> tuple[int, float]:
        scores = [score_on(run, "valid") for run in runs if run.setting == setting and run.status == "finished"]
        known = [score for score in scores if math.isfinite(score)]
        return -len(known), -fmean(known) if known else math.inf

    return min(dict.fromkeys(run.setting for run in runs), key=rank)


class Grouped:
    """The runs of one row, at the setting that was chosen for each task."""

    def __init__(self, name: str, kind: Kind, runs: Sequence[Tuned], in_mean: Sequence[str]) -> None:
        own = [run for run in runs if (run.name, run.kind) == (name, kind)]
        self.name, self.in_mean = name, tuple(in_mean)
        self.kind: Kind = kind
        self.runs: dict[str, list[Tuned]] = {}
        for task in dict.fromkeys(run.task for run in own):
            setting = choose_setting([run for run in own if run.task == task])
            self.runs[task] = [run for run in own if run.task == task and run.setting == setting]

    def scores(self, task: str) -> ByBody:
        return by_body(self.runs[task], score_on)

    def means(self, without: str = "") -> ByBody:
        """The mean over tasks of each body that has a score on all of them; one task may be left out."""
        found = [self.scores(task) for task in self.in_mean if task != without]
        bodies = set.intersection(*map(set, found)) if found else set[int]()
        return {body: fmean(scores[body] for scores in found) for body in sorted(bodies)}

    def on_task(self, task: str) -> OnTask:
        runs, bounds = self.runs[task], bounds_of(task)
        finished = sum(run.status == "finished" for run in runs)
        values = {name: list(by_body(runs, figure_of(name)).values()) for name in figures_of(task)}
        figures = {name: found for name in values if (found := estimate(values[name], bounds=bounds))}
        score = estimate(list(self.scores(task).values()), bounds=bounds)
        return OnTask(task, runs[0].setting, finished, len(runs) - finished, score, figures)

    def row(self, bodies: Sequence[Body]) -> Row:
        first = next(iter(self.runs.values()))[0]
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

    @property
    def title(self) -> str:
        return self.name if self.kind == "pre-trained" else f"{self.name} from scratch"


def mean_bounds(tasks: Sequence[str]) -> Bounds:
    """The least and the greatest mean over tasks."""
    least = [bounds_of(task).least for task in tasks]
    return Bounds(fmean(one for one in least if one is not None), POINTS) if least else Bounds()


def held_out(bodies: Iterable[Body], figure: str) -> ByBody:
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
    mean = [difference(MEAN, of, to, of.means(), to.means(), mean_bounds(of.in_mean))] if of.in_mean else []
    tasks = [difference(task, of, to, of.scores(task), to.scores(task), bounds_of(task)) for task in of.runs]
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
            own, other = (by_body(group.runs[task], figure_of(name)) for group in (of, to))
            found.append(difference(f"{task} {name}", of, to, own, other, bounds_of(task)))
    return found


def masked_losses(of: Grouped, to: Grouped, bodies: Sequence[Body]) -> Difference:
    own, other = (held_out([one for one in bodies if one.name == group.name], "loss") for group in (of, to))
    return difference(LOSS, of, to, own, other, Bounds())


def difference(what: str, of: Grouped, to: Grouped, own: ByBody, other: ByBody, bounds: Bounds) -> Difference:
    """One row minus another, over the pre-training seeds that both have."""
    seeds = tuple(sorted(own.keys() & other.keys()))
    return Difference(what, of.title, to.title, seeds, paired_difference(own, other, bounds))
