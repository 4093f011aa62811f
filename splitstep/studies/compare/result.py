"""The result of a comparison: its runs and its rows, summed up, written as JSON and read back."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ...experiments.experiment import Observation, Setting, sample
from ...experiments.result import Result
from ...experiments.statistics import Estimate
from ...experiments.trials import Trial, experiment_of, figure_on
from ...models.cost import Cost
from ...schemes import label, scheme
from ...support.provenance import Provenance
from ...support.typed import Inlined
from ...tasks.measures import Metric
from ...training.result import Matched, Shape
from .design import Design, counted

Runs = Sequence[Observation[Trial]]


@dataclass(frozen=True)
class Row:
    """One scheme over all seeds, at the setting that its validation figures chose."""

    name: str
    scheme: str
    setting: Setting
    finished: int  # runs, including those with figures that are not finite
    diverged: int
    test: Estimate | None
    valid: Estimate | None
    difference: Estimate | None  # to the first row, of the test metric, seed by seed
    cost: Cost
    matched: Matched | None
    shape: Shape
    evaluations: int  # 0 of a network that others wrote, which has no scheme
    order: int | None
    seconds: float
    tokens_per_second: float | None
    not_finite: int = 0  # finished runs with an infinite or NaN figure, which no mean includes
    arm: str = ""  # what differs from the recipe besides the scheme; older documents have none
    alone: bool = False  # whether the arm names the row without the scheme


class ScoreEstimate(NamedTuple):
    """A score over seeds, with its signature."""

    key: str
    name: str
    signature: str
    comparable: bool
    mean: Estimate


class Pair(NamedTuple):
    """Two runs of one seed on the same sentences: our score minus the first scheme's, and the probability p of so large
    a difference if there were none, by a paired bootstrap over sentences."""

    seed: int
    difference: float
    p: float


@dataclass(frozen=True)
class OnTestSet:
    """One scheme on one test split; the difference is that of the metric to the first scheme's."""

    split: str
    scheme: str
    lines: int
    scores: tuple[ScoreEstimate, ...]
    difference: Estimate | None  # its interval is over sentences and seeds
    pairs: tuple[Pair, ...]
    arm: str = ""
    alone: bool = False

    def score(self, key: str) -> ScoreEstimate | None:
        return next((one for one in self.scores if one.key == key), None)


@dataclass(frozen=True)
class Comparison(Result):
    """The result of the study; rows are the schemes in the order given, and differences are to the first."""

    study = "compare"

    task: str
    metric: Metric
    match: Literal["parameters", "flops", "none"]
    reference: str
    seeds: tuple[int, ...]
    sweep: tuple[Setting, ...]
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]
    made: Inlined[Provenance]
    tests: tuple[OnTestSet, ...] = ()  # for tasks whose models write text, such as translation
    design: Design | None = None  # of arms that are named alone
    changed: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # in configs of others, by arm, and their dropouts

    def __post_init__(self) -> None:
        """Refuse what has the right types but is not a comparison."""
        if not self.rows:
            raise ValueError("it has no rows")
        if not isinstance((self.made.recipe or {}).get("train", {}), dict):
            raise ValueError("its recipe.train has no entries")
        for notation in {self.reference, *(one.scheme for one in (*self.rows, *self.trials, *self.tests))} - {""}:
            scheme(notation)
        name, form = self.metric.name, self.metric.format
        if not re.fullmatch(r"\{:,?\.\d[%f]\}", form):
            raise ValueError(f"metric.format is {form!r}, and needs one such as '{{:.2f}}'")
        for trial in self.trials:
            check_trial(trial, name)

    @property
    def counted(self) -> list[Trial]:
        """The runs that are compared: at the largest budget, and for no other purpose."""
        return counted(self.trials, 1.0 if self.design is None else self.design.largest)

    def chosen(self, row: Row) -> list[Trial]:
        """The runs that the row is the mean of, including those that diverged."""
        return [t for t in self.counted if (t.scheme, t.arm, t.setting) == (row.scheme, row.arm, row.setting)]


def check_trial(trial: Trial, metric: str) -> None:
    """Refuse a run without its figures, and curves that are none."""
    for split, figures in (("valid", trial.valid), ("test", trial.test)):
        if metric not in (figures or {}) and (figures or trial.status == "finished"):
            raise ValueError(f"{trial.folder} has no {metric} on {split}")
    if any(len(x) != len(y) for x, y in (trial.train_loss, trial.valid_loss, trial.valid_metric)):
        raise ValueError(f"{trial.folder} has a curve with unequal numbers of steps and values")


def rows_of(trials: Sequence[Trial], metric: Metric) -> list[Row]:
    """A row per scheme and arm, in order."""
    experiment = experiment_of(trials, metric)
    arms = dict.fromkeys(one.arm for one in experiment.observations)
    found = [experiment.of(arm) for arm in arms]
    return [row_of(own, found[0] if number else None, metric) for number, own in enumerate(found)]


def row_of(own: Runs, first: Runs | None, metric: Metric) -> Row:
    """The row of these runs, which are compared with those of the first row, unless they are these."""
    test, valid = (sample(own, figure_on(split, metric)) for split in ("test", "valid"))
    finished, one = [run for run in own if run.finished], own[0].run
    s = scheme(one.scheme) if one.scheme else None
    rates = [each.run.tokens_per_second for each in own if each.run.tokens_per_second]
    return Row(
        name=row_name(one),
        scheme=one.scheme,
        setting=one.setting,
        finished=len(finished),
        diverged=len(own) - len(finished),
        test=test.mean(),
        valid=valid.mean(),
        difference=None if first is None else test.minus(sample(first, figure_on("test", metric))),
        cost=one.cost,
        matched=one.matched,
        shape=one.shape,
        evaluations=s.evaluations if s else 0,
        order=s.order if s else None,
        seconds=math.fsum(each.run.seconds for each in own) / len(own),
        tokens_per_second=math.fsum(rates) / len(rates) if rates else None,
        not_finite=lacking(finished, metric),
        arm=one.arm,
        alone=one.alone,
    )


def lacking(finished: Runs, metric: Metric) -> int:
    """How many finished runs have no finite number for the metric on validation or on test."""
    both = [figure_on(split, metric) for split in ("valid", "test")]
    return sum(any(each.seen(run) is None for each in both) for run in finished)


Named = Row | OnTestSet | Trial  # what has the name of a row


def row_name(one: Named) -> str:
    """A scheme by its name, with the arm if it has one; the arm, if that says all."""
    if one.alone:
        return one.arm
    return f"{label(one.scheme)}, {one.arm}" if one.arm else label(one.scheme)


def against(result: Comparison, text: str) -> Comparison:
    """The comparison with another of its rows first, so differences are to that one."""
    names = {row.name: (row.scheme, row.arm) for row in result.rows}
    first = names[text] if text in names else (str(scheme(text)), "")
    if first not in names.values():
        raise ValueError(f"{text} is not in this comparison: use one of {', '.join(names)}.")
    if result.tests:
        raise ValueError(
            f"differences on test sets need the translations: run `splitstep compare` again with {text} first; "
            "finished runs are kept."
        )
    trials = tuple(sorted(result.trials, key=lambda t: (t.scheme, t.arm) != first))
    turned = replace(result, trials=trials)
    return replace(turned, rows=tuple(rows_of(turned.counted, result.metric)))
