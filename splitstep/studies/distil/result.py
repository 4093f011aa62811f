"""The result of comparing methods of distillation: its records, and what its figures say about each method.

The rule of the claims is stated in docs/results/distil.md.
"""

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from ...distillation.judging.exam import Figures
from ...experiments.experiment import Claim, Difference, Form, Quantity, Rule, decide, evidence
from ...experiments.result import Result
from ...experiments.statistics import Bounds, Estimate
from ...experiments.trials import Curve
from ...report.document import Verdict, kind_of
from ...support.provenance import Provenance
from ...support.typed import Inlined
from ...support.words import listed

TEACHER, START, REFERENCE = "teacher", "student before", "reference"
BOUNDS = {
    "rouge": Bounds(0, 100), "bits_per_byte": Bounds(0), "text_bits_per_byte": Bounds(0), "top1": Bounds(0, 1),
    "kl": Bounds(0), "ended": Bounds(0, 1),
}  # fmt: skip
QUANTITIES = {name: Quantity[Figures](attrgetter(name), bounds) for name, bounds in BOUNDS.items()}


class Compared(NamedTuple):
    """A figure by which methods are compared: differences within the rule's margin are of no account."""

    quantity: Quantity[Figures]
    rule: Rule
    form: Form
    higher: bool  # is better
    has: str
    claimed: str


ROUGE, BITS = "ROUGE-L", "bits per byte"
COMPARED = {
    ROUGE: Compared(
        QUANTITIES["rouge"], Rule(margin=0.2), Form("{:+.2f}", "points"), True,
        "has a higher mean ROUGE-L than", "A higher ROUGE-L is",
    ),
    BITS: Compared(
        QUANTITIES["bits_per_byte"], Rule(margin=0.005), Form("{:+.4f}", "bits per byte"), False,
        "has fewer bits per byte than", "Fewer bits per byte are",
    ),
}  # fmt: skip


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


def claim_of(one: Difference) -> Claim:
    """Whether a method is better than its base; where less is better, the rule is asked about minus the difference."""
    by = COMPARED[one.what]
    gain = one.found if by.higher else one.found and one.found.turned
    said = evidence(f"{one.of} minus {one.to}", one.found, by.form, by.rule.fewest, "no seed has both figures")
    return Claim(f"{one.of} {by.has} {one.to}", decide(gain, by.rule), said)


def with_claims(found: DistilResult) -> DistilResult:
    """The result with its claims made, again if it has some: results of all versions say them in the same words."""
    return replace(found, claims=tuple(map(claim_of, found.differences)))


def distil_verdict(result: DistilResult) -> Verdict:
    """The answers about ROUGE-L, then those about bits per byte; their figures are in the table of claims."""
    if not result.claims:
        names = listed([row.method for row in result.rows])
        return Verdict("open", f"Nothing was compared: among the methods that were run, {names}, there is no base.")
    few = all(one.found is None or one.found.lacks for one in result.differences)
    parts = {by.claimed: in_short(result, what) for what, by in COMPARED.items()}
    kind = kind_of((one.answer for one in result.claims), few)
    return Verdict(kind, " ".join(f"{claimed} {said}." for claimed, said in parts.items() if said))


def in_short(result: DistilResult, what: str) -> str:
    """The answers about a figure, each with the pairs of methods that it is about."""
    found: dict[str, list[str]] = {"supported": [], "not supported": [], "undecided": []}
    for one, claim in zip(result.differences, result.claims, strict=True):
        if one.what == what:
            found[claim.answer].append(f"{one.of} over {one.to}")
    return "; ".join(f"{answer} for {listed(pairs)}" for answer, pairs in found.items() if pairs)
