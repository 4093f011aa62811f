"""The result of comparing methods of distillation: runs, rows, differences, claims and answers, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ...distillation.judging.exam import Figures
from ...experiments.claims import Claim
from ...experiments.experiment import Difference
from ...experiments.result import Result
from ...experiments.statistics import Estimate
from ...experiments.trials import Curve
from ...support.provenance import Provenance
from ...support.typed import Inlined

ROUGE, BITS = "ROUGE-L", "bits per byte"
TEACHER, START, REFERENCE = "teacher", "student before", "reference"


class DistilRun(NamedTuple):
    """One student: its method, its seed, how its training went, and its figures unless it diverged."""

    method: str
    seed: int
    folder: str  # relative to the study's own
    status: Literal["finished", "diverged"]
    steps: int
    seconds: float
    device: str
    train_loss: Curve
    valid_loss: Curve
    figures: Figures | None


class MethodRow(NamedTuple):
    """A method with the means over its seeds. `written` is the method with all of its weights."""

    method: str
    written: str
    base: str  # the method that it is compared with; empty if there is none among those that were run
    finished: int
    diverged: int
    rouge: Estimate | None
    rouge_on: dict[str, Estimate]
    bits_per_byte: Estimate | None
    text_bits_per_byte: Estimate | None
    top1: Estimate | None
    kl: Estimate | None
    ended: Estimate | None = None


class Said(NamedTuple):
    """An answer with its ROUGE-L in points, and whether the model ended it; the reference has neither."""

    who: str
    text: str
    rouge: float | None
    ended: bool | None = None  # missing in results before it was kept


class Shown(NamedTuple):
    """An instruction with the answers of all, beside each other."""

    set: str
    instruction: str
    answers: tuple[Said, ...]


@dataclass(frozen=True)
class DistilResult(Result):
    """The result of the study."""

    study = "distil"

    seeds: tuple[int, ...]
    sets: tuple[str, ...]
    rows: tuple[MethodRow, ...]
    others: dict[str, Figures]  # of the teacher, and of the student before it was trained
    differences: tuple[Difference, ...]
    claims: tuple[Claim, ...]
    runs: tuple[DistilRun, ...]
    shown: tuple[Shown, ...]
    made: Inlined[Provenance]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("it has no rows")

    @property
    def data(self) -> dict[str, Any]:
        """The exam."""
        return self.made.data or {}

    def of(self, method: str) -> list[DistilRun]:
        return [run for run in self.runs if run.method == method]
