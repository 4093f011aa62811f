"""The result of a comparison: its runs, its rows, how a table words them, and its JSON there and back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from ...models.cost import Cost
from ...schemes import label, scheme
from ...support.typed import plain, read_as
from ...support.words import counted
from ...tasks.task import Metric, title_of
from ...tasks.translation import EXACT_MATCH
from ...training.run_result import Divergence, Figures, Kept, Matched, Shape, SplitResult
from ..statistics import Estimate
from .test_splits import OnTestSet, Scored

FORMAT = 1  # of result.json; a reader refuses a newer one
STUDY = "compare"

Setting = tuple[str, ...]  # the assignments of one point of a sweep, such as ("train.lr=1e-3",)


class Curve(NamedTuple):
    """A figure against the step."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


class RecipeEntries(TypedDict):
    """A recipe as documents keep it."""

    train: NotRequired[dict[str, Any]]


@dataclass(frozen=True)
class Trial:
    """One run: a scheme with a setting of the sweep and a seed."""

    scheme: str
    setting: Setting
    seed: int
    folder: str  # under the study's own
    status: Literal["finished", "diverged"]
    valid: Figures | None
    test: Figures | None
    best_step: int | None
    steps: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    cost: Cost
    matched: Matched | None
    shape: Shape
    device: str
    precision: str
    mode: str
    commit: str | None
    diverged: Divergence | None
    train_loss: Curve
    valid_loss: Curve
    valid_metric: Curve
    kept: Kept | None = None
    splits: dict[str, SplitResult] = field(default_factory=dict)  # scores of what was written for each split, by split


@dataclass(frozen=True)
class Row:
    """One scheme over all seeds, at the setting that its validation figures chose."""

    name: str
    scheme: str
    setting: Setting
    finished: int
    diverged: int
    test: Estimate | None
    valid: Estimate | None
    difference: Estimate | None  # to the first row, of the test metric, seed by seed
    cost: Cost
    matched: Matched | None
    shape: Shape
    evaluations: int
    order: int | None
    seconds: float
    tokens_per_second: float | None
    structure: list[dict[str, Any]]

    @property
    def lost(self) -> str:
        """How many runs diverged, where any did."""
        return f"{self.diverged} of {self.diverged + self.finished} diverged" if self.diverged else ""


@dataclass(frozen=True)
class Comparison:
    """The result of the study; rows are the schemes in the order given, and differences are to the first."""

    task: str
    metric: Metric
    match: Literal["parameters", "flops", "none"]
    reference: str
    seeds: tuple[int, ...]
    sweep: tuple[Setting, ...]
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]
    recipe: RecipeEntries
    data: dict[str, Any]
    engine: str
    threads: int
    command: str | None
    versions: dict[str, str]
    commit: str | None
    date: str
    tests: tuple[OnTestSet, ...] = ()  # of tasks whose models write, such as translation

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"study": STUDY, "format": FORMAT, **plain(self)}

    @property
    def devices(self) -> list[str]:
        return sorted({trial.device for trial in self.trials})

    def shown(self, value: float) -> str:
        """A figure of the metric as a table prints it."""
        return self.metric.format.format(value)

    def interval(self, value: Estimate | None, signed: bool = False) -> str:
        """A mean with its interval in brackets below it; "-" where there is none."""
        if value is None:
            return "-"
        show = self.shown_difference if signed else self.shown
        interval = "one seed" if value.low is None or value.high is None else f"[{show(value.low)}, {show(value.high)}]"
        return f"{show(value.mean)}\n{interval}"

    def plus_minus(self, value: Estimate | None, signed: bool = False) -> str:
        """A mean with half its interval below it."""
        if value is None:
            return "-"
        show = self.shown_difference if signed else self.shown
        half = "one seed" if value.high is None else f"\u00b1 {self.shown(value.high - value.mean)}"
        return f"{show(value.mean)}\n{half}"

    def shown_difference(self, value: float) -> str:
        return self.metric.format.replace("{:", "{:+").format(value)

    def note(self) -> str:
        """How to read the table."""
        first, seeds = self.rows[0], len(self.seeds)
        better = "higher" if self.metric.higher_is_better else "lower"
        what = {"parameters": "parameters of the body", "flops": "FLOPs per token", "none": "nothing"}[self.match]
        return (
            f"{title_of(self.metric)}: {better} is better; mean over {counted(seeds, 'seed')}, each with "
            f"{self.kept}. Intervals: 95%, Student's t over seeds; differences to {first.name} are paired by seed. "
            f"Matched: {what}, to {label(self.reference)}.{self.crowd}"
        )

    @property
    def crowd(self) -> str:
        """A warning where runs shared the machine: schemes that ran in other company are slower or faster for it."""
        at_once = self.engine.removeprefix("local=")
        return (
            f" Seconds and tokens/s: with {at_once} runs at once." if at_once.isdecimal() and int(at_once) > 1 else ""
        )

    @property
    def kept(self) -> str:
        """Which weights the runs ended with."""
        options = self.recipe.get("train", {})
        if options.get("keep") == "average":
            return f"the mean of its last {options.get('average')} snapshots"
        return "the weights of its best validation step"

    def scored(self) -> list[Scored]:
        """The scores of the test sets, the metric first."""
        found = next((one.scores for one in self.tests if one.scores), ())
        return sorted(found, key=lambda score: score.key != self.metric.name)

    def main_scores(self) -> list[Scored]:
        """The scores for a table: exact matches only where they are the metric."""
        return [one for one in self.scored() if one.key != EXACT_MATCH.name or one.key == self.metric.name]

    def score_text(self, score: Scored | None) -> str:
        """A score's mean, of the metric with half its interval; a star where published scores are no match for it."""
        if score is None:
            return "-"
        if score.key == self.metric.name:
            return self.plus_minus(score.mean)
        return f"{score.mean.mean:.2f}{'' if score.comparable else '*'}"

    def told_apart(self, one: OnTestSet, level: float = 0.05) -> str:
        """How many seeds differ from the first scheme's on these sentences, and to which side."""
        sure = [pair.difference > 0 for pair in one.pairs if pair.p < level]
        return f"{sum(sure)} better\n{len(sure) - sum(sure)} worse of {len(one.pairs)}" if one.pairs else ""

    def test_difference(self, one: OnTestSet) -> str:
        """The difference to the first scheme with its interval below; one seed has an interval over sentences alone."""
        if one.difference is None:
            return "" if one.scheme == self.rows[0].scheme else "-"
        alone = "\nsentences alone" if one.difference.n == 1 else ""
        return f"{self.interval(one.difference, signed=True)}{alone}"

    def test_note(self) -> str:
        """How to read the table of test sets."""
        sentences = ["Scores are means over seeds, with Student's t intervals."]
        counts = [one.difference.n for one in self.tests if one.difference is not None]
        if counts:
            how = (
                "Student's t over seeds and a paired bootstrap over sentences, together"
                if max(counts) > 1
                else "paired bootstrap over sentences alone, for there is one seed"
            )
            sentences.append(
                f"Differences to {self.rows[0].name} are of {title_of(self.metric)}, seed by seed; intervals: 95%, "
                f"{how}. p: paired bootstrap over sentences, two-sided, of each seed against {self.rows[0].name}'s."
            )
        if not all(score.comparable for score in self.scored()):
            sentences.append("*: not comparable with published scores, for the references are no published text.")
        return " ".join(sentences)

    def chosen(self, row: Row) -> list[Trial]:
        """The runs that the row is the mean of, diverged ones too."""
        return [t for t in self.trials if (t.scheme, t.setting) == (row.scheme, row.setting)]


def check_sense(found: Comparison) -> None:
    """Refuse what has the right types and is no comparison for all that."""
    if not found.rows:
        raise ValueError("it has no rows")
    for notation in {found.reference, *(one.scheme for one in (*found.rows, *found.trials, *found.tests))}:
        scheme(notation)
    name, form = found.metric.name, found.metric.format
    if not re.fullmatch(r"\{:\.\d[%f]\}", form):
        raise ValueError(f"metric.format is {form!r}, and needs one such as '{{:.2f}}'")
    for trial in found.trials:
        for split, figures in (("valid", trial.valid), ("test", trial.test)):
            if name not in (figures or {}) and (figures or trial.status == "finished"):
                raise ValueError(f"{trial.folder} has no {name} on {split}")
        if any(
            len(curve.steps) != len(curve.values) for curve in (trial.train_loss, trial.valid_loss, trial.valid_metric)
        ):
            raise ValueError(f"{trial.folder} has a curve with more steps than values, or fewer")


def read_comparison(document: Any, where: str) -> Comparison:
    """The comparison that a result.json holds."""
    if not isinstance(document, dict) or document.get("study") != STUDY:
        raise ValueError(f"{where} is not the result of a comparison: name a directory that `splitstep compare` wrote.")
    if document.get("format") != FORMAT:
        raise ValueError(f"{where} has format {document.get('format')}, and this version of splitstep reads {FORMAT}.")
    try:
        found: Comparison = read_as(Comparison, document, "the document")
        check_sense(found)
        return found
    except ValueError as error:
        raise ValueError(
            f"{where} is damaged: {error}. Run `splitstep compare` again; finished runs are kept."
        ) from None
