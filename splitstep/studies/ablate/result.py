"""The result of an ablation, and the paper's three claims, which its figures decide.

The rules of the claims are those of docs/theory/laboratory.md, which were written before any run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...experiments.arms import FULL
from ...experiments.experiment import Answer, Rule, all_of, decide, opposite, setting_of
from ...experiments.result import Result
from ...experiments.sections import estimated
from ...experiments.statistics import Estimate
from ...experiments.trials import Trial
from ...schemes import scheme
from ...support.provenance import Provenance
from ...support.typed import Figure, Inlined
from ...tasks.measures import Metric
from ...training.result import Divergence

GROUP, BIAS = "gradient of ", " bias"  # before the name of a group of parameters, after that of an estimate
DRIFT = 0.1  # a network drifts if the cosine between its last layer and its input is below this
EXPLOSION = 10.0  # a run explodes if its gradient grows more than so many times per layer
STEADY = Rule(DRIFT, level_is="above")
EXPLODING = Rule(EXPLOSION, level_is="below")
ALIKE = Rule(level_is="above")  # at least as similar as another seed
LACKING = ("no-residual", "no-norm", "neither")


class Series(NamedTuple):
    """A figure of each layer along training: the mean over the seeds that have it, `values[record][layer]`."""

    steps: tuple[int, ...]
    values: tuple[tuple[Figure, ...], ...]


class Lost(NamedTuple):
    """A run that diverged."""

    seed: int
    found: Divergence


@dataclass(frozen=True)
class Outcome:
    """An arm at one learning rate, over all seeds. Figures are of the last record in training; `profiles` hold one for
    each layer, by name, and `maps` the means of one for each layer and head."""

    rate: float
    finished: int
    lost: tuple[Lost, ...]
    test: Estimate | None
    valid: Estimate | None
    difference: Estimate | None  # to the full arm at this outcome's kind of rate, of the test metric, seed by seed
    drift: Estimate | None = None  # cos(u_L, u_0)
    growth: Estimate | None = None  # of the gradient per layer, at its largest
    not_finite: int = 0  # seeds that end with a loss or a gradient that is not finite
    alignment: Estimate | None = None  # CKA with the full arm minus CKA of two seeds of it
    profiles: dict[str, tuple[Estimate | None, ...]] = field(default_factory=dict)
    maps: dict[str, tuple[tuple[Figure, ...], ...]] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return self.finished + len(self.lost)


@dataclass(frozen=True)
class ArmResult:
    """An arm at its own best rate, which decides, and at the full arm's rate."""

    name: str
    scheme: str
    assignments: dict[str, Any]
    own: Outcome
    shared: Outcome


@dataclass(frozen=True)
class Replayed:
    """The trained full network without some of its structure, with the same weights: what is left of it."""

    name: str
    test: Estimate | None
    difference: Estimate | None  # to the network itself, seed by seed
    cosine: tuple[Estimate | None, ...]  # with the network itself, layer by layer
    cka: tuple[Estimate | None, ...]


class DecidedClaim(NamedTuple):
    """One of the paper's claims, and what the figures say about it: at the arms' own rates, and at the full arm's."""

    name: str
    text: str
    ruling: Answer
    number: str
    at_shared_rate: Answer
    number_at_shared_rate: str


@dataclass(frozen=True)
class Ablation(Result):
    """The result of the study; the full arm is the first, and differences are to it."""

    study = "ablate"

    task: str
    metric: Metric
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    arms: tuple[ArmResult, ...]
    claims: tuple[DecidedClaim, ...]
    replay: tuple[Replayed, ...]
    trials: tuple[Trial, ...]
    made: Inlined[Provenance]

    def __post_init__(self) -> None:
        if not self.arms or self.arms[0].name != FULL:
            raise ValueError(f'its first arm is not "{FULL}"')
        for arm in self.arms:
            scheme(arm.scheme)

    @property
    def full(self) -> ArmResult:
        return self.arms[0]

    def chosen(self, arm: ArmResult) -> list[Trial]:
        """The runs of an arm at its own rate."""
        return [one for one in self.trials if (one.arm, one.setting) == (arm.name, setting_of(arm.own.rate))]


Outcomes = Mapping[str, Outcome]  # by arm
Ruling = tuple[Answer, str]  # what the figures say about a claim, and the figures


def written(found: Estimate | None, form: str = "{:.3g}") -> str:
    """A figure with its interval."""
    return "no figure" if found is None else " ".join(estimated(found, form))


def drift(outcomes: Outcomes) -> Ruling:
    """Without residual connections, the last layer forgets the input."""
    without, full = outcomes["no-residual"].drift, outcomes[FULL].drift
    number = (
        f"cosine between the last layer and the input: no-residual {written(without)}, full {written(full)}; "
        f"drift is below {DRIFT:g}"
    )
    return all_of([opposite(decide(without, STEADY)), decide(full, STEADY)]), number


def explodes(outcome: Outcome) -> Answer:
    """Whether an arm explodes."""
    if outcome.not_finite == outcome.runs:
        return "supported"
    found = decide(outcome.growth, EXPLODING)
    return found if found == "supported" or outcome.not_finite == 0 else "undecided"


def explosion(outcomes: Outcomes) -> Ruling:
    """Without layer normalisation, training explodes."""

    def grown(outcome: Outcome) -> str:
        ended = f", {outcome.not_finite} of {outcome.runs} not finite" if outcome.not_finite else ""
        return f"{written(outcome.growth)}{ended}"

    told = ", ".join(f"{name} {grown(outcomes[name])}" for name in ("no-norm", FULL))
    number = f"growth of the gradient per layer: {told}; explosion is above {EXPLOSION:g} or not finite"
    return all_of([explodes(outcomes["no-norm"]), opposite(explodes(outcomes[FULL]))]), number


def alignment(outcomes: Outcomes) -> Ruling:
    """Both together give the best alignment with the Transformer."""
    found = {name: outcomes[name].alignment for name in LACKING}
    told = ", ".join(f"{name} {written(one, '{:+.3f}')}" for name, one in found.items())
    number = f"CKA with full minus CKA of two seeds of full: {told}; 0 is as similar as another seed"
    return all_of(opposite(decide(one, ALIKE)) for one in found.values()), number


class PaperClaim(NamedTuple):
    """A claim, the arms that it is about, and how it is decided."""

    name: str
    text: str
    arms: Sequence[str]
    decide: Callable[[Outcomes], Ruling]

    def decided(self, outcomes: Outcomes) -> Ruling:
        """The ruling; undecided if an arm was not run."""
        missing = [name for name in self.arms if name not in outcomes]
        return ("undecided", f"not run: {', '.join(missing)}") if missing else self.decide(outcomes)


RULES = (
    PaperClaim("drift", "Without residual connections, representations drift", ("no-residual",), drift),
    PaperClaim("explosion", "Without layer normalisation, training explodes", ("no-norm",), explosion),
    PaperClaim("alignment", "Both together give the best alignment with the Transformer", LACKING, alignment),
)


def claims_of(arms: Sequence[ArmResult]) -> tuple[DecidedClaim, ...]:
    """Each claim at the arms' own rates, which decide, and at the full arm's."""
    own, shared = ({arm.name: getattr(arm, kind) for arm in arms} for kind in ("own", "shared"))
    return tuple(DecidedClaim(rule.name, rule.text, *rule.decided(own), *rule.decided(shared)) for rule in RULES)
