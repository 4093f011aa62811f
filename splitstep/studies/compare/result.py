"""The result of a comparison: its runs and its rows, written as JSON and read back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...experiments.experiment import Setting
from ...experiments.result import Result
from ...experiments.statistics import Estimate
from ...experiments.trials import Trial
from ...models.cost import Cost
from ...schemes import scheme
from ...support.provenance import Provenance
from ...support.typed import Inlined
from ...tasks.measures import Metric
from ...training.result import Matched, Shape


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
    evaluations: int
    order: int | None
    seconds: float
    tokens_per_second: float | None
    not_finite: int = 0  # finished runs with an infinite or NaN figure, which no mean includes
    arm: str = ""  # what differs from the recipe besides the scheme; older documents have none


class Scored(NamedTuple):
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
    scores: tuple[Scored, ...]
    difference: Estimate | None  # its interval is over sentences and seeds
    pairs: tuple[Pair, ...]
    arm: str = ""

    def score(self, key: str) -> Scored | None:
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

    def __post_init__(self) -> None:
        check_sense(self)

    def chosen(self, row: Row) -> list[Trial]:
        """The runs that the row is the mean of, including those that diverged."""
        return [t for t in self.trials if (t.scheme, t.arm, t.setting) == (row.scheme, row.arm, row.setting)]


def check_sense(found: Comparison) -> None:
    """Refuse what has the right types but is not a comparison."""
    if not found.rows:
        raise ValueError("it has no rows")
    if not isinstance((found.made.recipe or {}).get("train", {}), dict):
        raise ValueError("its recipe.train has no entries")
    for notation in {found.reference, *(one.scheme for one in (*found.rows, *found.trials, *found.tests))}:
        scheme(notation)
    name, form = found.metric.name, found.metric.format
    if not re.fullmatch(r"\{:,?\.\d[%f]\}", form):
        raise ValueError(f"metric.format is {form!r}, and needs one such as '{{:.2f}}'")
    for trial in found.trials:
        for split, figures in (("valid", trial.valid), ("test", trial.test)):
            if name not in (figures or {}) and (figures or trial.status == "finished"):
                raise ValueError(f"{trial.folder} has no {name} on {split}")
        if any(len(x) != len(y) for x, y in (trial.train_loss, trial.valid_loss, trial.valid_metric)):
            raise ValueError(f"{trial.folder} has a curve with unequal numbers of steps and values")
