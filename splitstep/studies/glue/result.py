"""The result of fine-tuning on GLUE: its runs, its rows, its differences, written as JSON and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...experiments.experiment import Claim, Difference, Setting
from ...experiments.result import Result
from ...experiments.statistics import Estimate
from ...support.provenance import Provenance
from ...support.typed import Inlined
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
