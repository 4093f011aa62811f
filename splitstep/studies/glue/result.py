"""The result of fine-tuning on GLUE: its runs, its rows, its differences. Scores are as GLUE's leaderboard has them: a
figure for each body, then means over bodies. What these say about the paper's claim, by the rule that
docs/results/pretrain.md states.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
import torch

from ...experiments.experiment import (
    Claim,
    Difference,
    Experiment,
    Form,
    Observation,
    Quantity,
    Rule,
    Sample,
    Setting,
    decide,
    difference,
    evidence,
    sample,
)
from ...experiments.result import Result
from ...experiments.statistics import Bounds, Estimate
from ...schemes import scheme
from ...support.provenance import Provenance
from ...support.typed import Inlined
from ...tasks.glue import PARTS
from ...tasks.measures import F1_ACCURACY, PEARSON, class_figures, class_sums
from ...tasks.sequences import Sentences
from ...training.result import RunOutcome
from .bodies import Body

Kind = Literal["pre-trained", "scratch"]
KINDS: tuple[Kind, ...] = ("pre-trained", "scratch")
LOSS = "masked loss"
MEAN = "mean"


def title_of(name: str, kind: Kind) -> str:
    """What a row is called."""
    return name if kind == "pre-trained" else f"{name} from scratch"


@dataclass(frozen=True, kw_only=True)
class FineTuning(RunOutcome):
    """One run: a body, or a network of its shape from scratch, on one task. `body` is the pre-training seed."""

    task: str
    name: str
    kind: Kind
    body: int
    setting: Setting
    folder: str  # relative to the study's own

    @property
    def title(self) -> str:
        return title_of(self.name, self.kind)

    def score(self, split: str) -> float:
        """GLUE's score on a split; `test` is the published dev set."""
        return points(getattr(self, split), figures_of(self.task))


class OnTask(NamedTuple):
    """A row on one task, at the setting that validation chose. Figures and score are in points."""

    task: str
    setting: Setting
    finished: int
    diverged: int
    score: Estimate | None  # GLUE's: the mean of the figures
    figures: dict[str, Estimate]


class Row(NamedTuple):
    """The networks of one name, pre-trained or from scratch; a body is one value of each mean."""

    name: str
    scheme: str
    kind: Kind
    parameters: int
    tasks: tuple[OnTask, ...]
    mean: Estimate | None
    masked_loss: Estimate | None = None  # in nats, on held-out text
    masked_accuracy: Estimate | None = None  # in points

    @property
    def title(self) -> str:
        return title_of(self.name, self.kind)

    def on(self, task: str) -> OnTask:
        return next(one for one in self.tasks if one.task == task)


class Majority(NamedTuple):
    """What the commonest class of the training set, or its mean number, gives on a task; in points."""

    task: str
    score: float
    figures: dict[str, float]


@dataclass(frozen=True)
class GlueResult(Result):
    """The result of the study."""

    study = "glue"

    tasks: tuple[str, ...]
    in_mean: tuple[str, ...]
    fine_tunings: int  # of each body
    bodies: tuple[Body, ...]
    rows: tuple[Row, ...]
    majority: tuple[Majority, ...]
    differences: tuple[Difference, ...]
    claims: tuple[Claim, ...]
    runs: tuple[FineTuning, ...]
    made: Inlined[Provenance]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("it has no rows")


DEFAULT = ("cola", "sst2", "mrpc", "rte", "stsb")
APART = frozenset({"wnli"})  # never in the mean
POINTS = 100.0
WITHOUT = "mean without "  # before a task: the mean of all others
PEARSON_ON_STSB = "stsb pearson"


OVERLAP = 62.0  # Pearson's correlation on STS-B of counting shared words, in points
IN_POINTS, IN_NATS = Form("{:+.2f}", "points"), Form("{:+.4f}", "nats")  # per masked token
MISSING = "no pre-training seed has both figures"
SETTLE = 6  # pairs: with fewer, no test of their signs is significant at the level of 95%


class Question(NamedTuple):
    """What is asked about a difference, and the rule for the answer."""

    text: str
    rule: Rule
    form: Form = IN_POINTS
    less: bool = False  # is better, so that the question is about minus the difference


QUESTIONS = {
    MEAN: Question("{of} has a higher GLUE mean than {to}", Rule(margin=0.5, fewest=5)),
    LOSS: Question("{of} has a lower held-out masked loss than {to}", Rule(margin=0.01, fewest=5), IN_NATS, less=True),
}  # about two schemes; `fewest` pairs of pre-training seeds
AGAINST_SCRATCH = {
    "sst2": Question("pre-training helps {of} on SST-2", Rule(fewest=0)),
    PEARSON_ON_STSB: Question("pre-training helps {of} on STS-B (Pearson)", Rule(fewest=0)),
}


def figures_of(task: str) -> tuple[str, ...]:
    """The figures that a task's score is the mean of."""
    metric = PARTS[task].metric
    return {F1_ACCURACY: ("f1", "accuracy"), PEARSON: ("pearson", "spearman")}.get(metric, (metric.name,))


def points(figures: Mapping[str, float] | None, names: Sequence[str]) -> float:
    """The mean of these figures in points; NaN if one is missing."""
    return POINTS * math.fsum((figures or {}).get(name, math.nan) for name in names) / len(names)


def bounds_of(*tasks: str) -> Bounds:
    """The least and the greatest mean of these tasks' scores."""
    least = [POINTS * (PARTS[task].metric.least or 0.0) for task in tasks]
    return Bounds(fmean(least), POINTS) if tasks else Bounds()


class Arm:
    """The networks of one name, pre-trained or from scratch: each body has the mean of its fine-tunings. `valid`
    chooses the setting of each task; dev decides nothing. `figures` has them all by what they are called."""

    def __init__(
        self, name: str, kind: Kind, runs: Sequence[FineTuning], bodies: Sequence[Body], in_mean: Sequence[str]
    ) -> None:
        self.kind: Kind = kind
        self.name, self.title = name, title_of(name, kind)
        self.bodies = [body for body in bodies if body.name == name]
        own = [
            Observation(self.title, run.body, run.setting, run.status == "finished", run, run.task)
            for run in runs
            if (run.name, run.kind) == (name, kind)
        ]
        experiment = Experiment(own, Quantity[FineTuning](lambda run: run.score("valid")))
        self.runs = {task: experiment.of(self.title, task) for task in dict.fromkeys(run.block for run in own)}
        scores = {task: self.on(task, *figures_of(task)) for task in self.runs}
        single = {f"{task} {one}": self.on(task, one) for task in self.runs for one in figures_of(task)}
        means = {f"{WITHOUT}{task}": mean_of(scores, [one for one in in_mean if one != task]) for task in in_mean}
        self.figures = {**scores, **single, **means}
        if in_mean:
            self.figures[MEAN] = mean_of(scores, in_mean)
        if kind == "pre-trained":
            self.figures[LOSS] = self.held_out("loss")

    def on(self, task: str, *names: str) -> Sample:
        """The mean of the figures that are named, on a task, in points."""
        return sample(self.runs[task], Quantity(lambda run: points(run.test, names), bounds_of(task)))

    def held_out(self, figure: str, unit: float = 1.0, greatest: float | None = None) -> Sample:
        """A figure of pre-trained bodies on held-out text, as far as it is known."""
        bodies = self.bodies if self.kind == "pre-trained" else []
        found = {body.seed: unit * (body.held_out or {}).get(figure, math.nan) for body in bodies}
        known = {seed: value for seed, value in sorted(found.items()) if math.isfinite(value)}
        return Sample(known, Bounds(0.0, greatest))

    def on_task(self, task: str) -> OnTask:
        """What the row says of a task."""
        runs = self.runs[task]
        finished = sum(run.finished for run in runs)
        means = {name: self.figures[f"{task} {name}"].mean() for name in figures_of(task)}
        figures = {name: mean for name, mean in means.items() if mean is not None}
        return OnTask(task, runs[0].setting, finished, len(runs) - finished, self.figures[task].mean(), figures)

    def row(self) -> Row:
        """The row of the table."""
        return Row(
            name=self.name,
            scheme=self.bodies[0].scheme,
            kind=self.kind,
            parameters=next(iter(self.runs.values()))[0].run.cost.parameters,
            tasks=tuple(self.on_task(task) for task in self.runs),
            mean=self.figures[MEAN].mean() if MEAN in self.figures else None,
            masked_loss=self.held_out("loss").mean(),
            masked_accuracy=self.held_out("accuracy", POINTS, POINTS).mean(),
        )


def mean_of(scores: Mapping[str, Sample], tasks: Sequence[str]) -> Sample:
    """The mean over tasks of each body that has a score on all of them."""
    found = [scores[task].values for task in tasks]
    bodies = sorted(set.intersection(*map(set, found))) if found else []
    return Sample({body: fmean(one[body] for one in found) for body in bodies}, bounds_of(*tasks))


def differences(arms: Sequence[Arm], base: str) -> list[Difference]:
    """Every other name minus the base, and every name minus itself from scratch, in every figure that both have."""
    trained = {arm.name: arm for arm in arms if arm.kind == "pre-trained"}
    pairs = [(arm, trained[base]) for name, arm in trained.items() if name != base]
    pairs += [(trained[arm.name], arm) for arm in arms if arm.kind == "scratch"]
    return [
        difference(what, of.title, to.title, of.figures[what], to.figures[what])
        for of, to in pairs
        for what in (MEAN, *of.runs, PEARSON_ON_STSB, LOSS)
        if what in of.figures and what in to.figures
    ]


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
    logits = torch.eye(classes)[guess].expand(len(labels), classes)
    return class_figures(class_sums(logits, torch.from_numpy(labels).long()))


def base_of(rows: Sequence[tuple[str, str]]) -> str:
    """The name that the others are compared with: the first of the scheme lie, else the first. Rows are names with
    their schemes."""
    lie = str(scheme("lie"))
    return next((name for name, notation in rows if notation == lie), rows[0][0])


def claims_of(rows: Sequence[Row], differences: Sequence[Difference], tasks: Sequence[str]) -> list[Claim]:
    """The answers to all questions that these runs are about."""
    return [*(claim_of(one, tasks) for one in claimed(rows, differences)), *below_overlap(rows)]


def claimed(rows: Sequence[Row], differences: Sequence[Difference]) -> list[Difference]:
    """The differences that claims are about, in the order of the claims."""
    trained = {row.title for row in rows if row.kind == "pre-trained"}

    def is_claimed(one: Difference) -> bool:
        if one.to not in trained:
            return one.what in AGAINST_SCRATCH
        return one.of in trained and (one.what == MEAN or (one.what == LOSS and one.found is not None))

    return [one for one in differences if is_claimed(one)]


def claim_of(one: Difference, tasks: Sequence[str]) -> Claim:
    """The claim about a difference: of the mean, of the masked loss, or to the same network from scratch."""
    asked = {**QUESTIONS, **AGAINST_SCRATCH}[one.what]
    question, names = asked.text.format(of=one.of, to=one.to), (one.of, one.to)
    if one.what == MEAN and set(tasks) != set(DEFAULT):
        return Claim(question, "undecided", f"the rule is about the mean of {', '.join(DEFAULT)}")
    gain, (more, less) = (one.found and one.found.turned, names[::-1]) if asked.less else (one.found, names)
    answer = decide(gain, asked.rule)
    said = evidence(f"{more} minus {less}", gain, asked.form, asked.rule.fewest, MISSING)
    if one.what in AGAINST_SCRATCH and answer != "undecided":
        return Claim(question, "helps" if answer == "supported" else "hurts", said)
    return Claim(question, answer, said)


def below_overlap(rows: Sequence[Row]) -> list[Claim]:
    """Says so if no pre-trained row reaches what word overlap alone gives on STS-B."""
    trained = [row for row in rows if row.kind == "pre-trained" and any(one.task == "stsb" for one in row.tasks)]
    found = [row.on("stsb").figures.get("pearson") for row in trained]
    if not found or any(one is None or one.mean >= OVERLAP for one in found):
        return []
    reached = ", ".join(f"{row.name} {one.mean / 100:.3f}" for row, one in zip(trained, found, strict=True) if one)
    return [Claim(f"STS-B is above word overlap ({OVERLAP / 100:.2f} Pearson)", "not supported", reached)]


def summed_up(
    bodies: Sequence[Body],
    kinds: Sequence[Kind],
    seeds: int,
    tasks: Mapping[str, Sentences],
    runs: Sequence[FineTuning],
    made: Provenance,
) -> GlueResult:
    """The result of all runs."""
    names = dict.fromkeys(body.name for body in bodies)
    in_mean = tuple(task for task in tasks if task not in APART)
    arms = [Arm(name, kind, runs, bodies, in_mean) for kind, name in product(kinds, names)]
    rows = [arm.row() for arm in arms]
    found = differences(arms, base_of([(row.name, row.scheme) for row in rows]))
    return GlueResult(
        tasks=tuple(tasks),
        in_mean=in_mean,
        fine_tunings=seeds,
        bodies=tuple(bodies),
        rows=tuple(rows),
        majority=tuple(majority_of(name, task) for name, task in tasks.items()),
        differences=tuple(found),
        claims=tuple(claims_of(rows, found, in_mean)),
        runs=tuple(runs),
        made=made,
    )
