"""The result of a comparison: its runs, its rows, and its JSON there and back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from ...models.cost import Cost
from ...schemes import scheme
from ...support.typed import plain
from ...tasks.task import Metric
from ...training.run_result import Divergence, Figures, Kept, Matched, Shape, SplitResult
from .. import read_document
from ..statistics import Estimate
from .test_splits import OnTestSet

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
    finished: int  # runs; those with figures that are not finite are counted here, too
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
    not_finite: int = 0  # finished runs with a figure that is infinite or not a number, which is in no mean


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

    def __post_init__(self) -> None:
        check_sense(self)

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"study": STUDY, "format": FORMAT, **plain(self)}

    @property
    def devices(self) -> list[str]:
        return sorted({trial.device for trial in self.trials})

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
    return read_document(Comparison, document, where, FORMAT)
