"""An experiment: runs of arms, quantities of runs, means over units with intervals, and paired differences. What an
interval says about a claim: the one rule of all studies, and claims with the figures behind them.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, Literal, NamedTuple, TypeVar

from ..support.words import counted
from .statistics import FEWEST, UNBOUNDED, Bounds, Estimate, estimate, paired_difference

T = TypeVar("T")
Setting = tuple[str, ...]  # the assignments of one point of a sweep, such as ("train.lr=1e-3",)


def setting_of(rate: float) -> Setting:
    """A learning rate as the setting of a run."""
    return (f"train.lr={rate:.6g}",)


def rate_of(setting: Setting) -> float:
    """The learning rate of such a setting."""
    return float(setting[0].partition("=")[2])


class Observation(NamedTuple, Generic[T]):
    """A run of an experiment: `arm` is the row that it belongs to, `unit` what intervals are over, as the seed, and
    `block` what settings are chosen within, such as a task, if there are several."""

    arm: str
    unit: int
    setting: Setting
    finished: bool
    run: T
    block: str = ""


class Quantity(NamedTuple, Generic[T]):
    """A figure of a run, None or NaN where it has none, and the least and the greatest value that it can have."""

    of: Callable[[T], float | None]
    bounds: Bounds = UNBOUNDED
    higher: bool = True

    def seen(self, one: Observation[T]) -> float | None:
        """The figure of a run that finished, if it is a finite number."""
        value = self.of(one.run) if one.finished else None
        return value if value is not None and math.isfinite(value) else None


class Sample(NamedTuple):
    """A figure of each unit, and the least and the greatest value that it can have."""

    values: Mapping[int, float]
    bounds: Bounds = UNBOUNDED

    def mean(self) -> Estimate | None:
        """The mean over units, with its interval."""
        return estimate(list(self.values.values()), bounds=self.bounds)

    def minus(self, other: "Sample") -> Estimate | None:
        """The mean difference, unit by unit."""
        return paired_difference(self.values, other.values, self.bounds)


def sample(observations: Iterable[Observation[T]], quantity: Quantity[T]) -> Sample:
    """The mean over each unit's runs that finished with a finite figure."""
    found: dict[int, list[float]] = {}
    for one in observations:
        if (value := quantity.seen(one)) is not None:
            found.setdefault(one.unit, []).append(value)
    return Sample({unit: fmean(values) for unit, values in sorted(found.items())}, quantity.bounds)


class Difference(NamedTuple):
    """One arm minus another in a figure, paired by the seeds that both have."""

    what: str
    of: str
    to: str
    seeds: tuple[int, ...]
    found: Estimate | None


def difference(what: str, of: str, to: str, ours: Sample, theirs: Sample) -> Difference:
    """The difference of two arms from the figures of their units."""
    return Difference(what, of, to, tuple(sorted(ours.values.keys() & theirs.values.keys())), ours.minus(theirs))


@dataclass(frozen=True)
class Experiment(Generic[T]):
    """Observations, of which each arm has those at one setting, chosen by a quantity within each block. A run that
    lacks this quantity or one of the `needed` ones has failed."""

    observations: Sequence[Observation[T]]
    choose: Quantity[T]
    needed: tuple[Quantity[T], ...] = ()

    def setting(self, arm: str, block: str = "") -> Setting:
        """The setting with the fewest failed runs; among those, the one with the best mean."""
        own = [one for one in self.observations if (one.arm, one.block) == (arm, block)]
        sign = -1.0 if self.choose.higher else 1.0

        def rank(setting: Setting) -> tuple[int, float]:
            tried = [one for one in own if one.setting == setting]
            failed = sum(any(each.seen(one) is None for each in (self.choose, *self.needed)) for one in tried)
            known = [value for one in tried if (value := self.choose.seen(one)) is not None]
            return failed, sign * fmean(known) if known else math.inf

        return min(dict.fromkeys(one.setting for one in own), key=rank)

    def of(self, arm: str, block: str = "") -> list[Observation[T]]:
        """The runs of an arm at its setting."""
        chosen = arm, block, self.setting(arm, block)
        return [one for one in self.observations if (one.arm, one.block, one.setting) == chosen]


Answer = Literal["supported", "not supported", "undecided"]
OPPOSITE: dict[Answer, Answer] = {"supported": "not supported", "not supported": "supported"}


class Rule(NamedTuple):
    """When a figure counts as above a level: a whole interval beyond it decides, and one that is within the margin on
    both sides says no. The level itself counts as above, as below or as neither."""

    level: float = 0.0
    margin: float = 0.0
    fewest: int = FEWEST  # values that the figure needs to be the mean of
    level_is: Literal["above", "below", "neither"] = "neither"


class Claim(NamedTuple):
    """What a rule says about one question, and the figures behind it."""

    question: str
    answer: Literal["supported", "not supported", "undecided", "helps", "hurts"]
    evidence: str


def decide(found: Estimate | None, rule: Rule) -> Answer:
    """Whether a figure is above the rule's level; one without an interval decides nothing."""
    if found is None or found.n < rule.fewest or found.low is None or found.high is None:
        return "undecided"
    if found.low > rule.level or (found.low == rule.level and rule.level_is == "above"):
        return "supported"
    below = found.high < rule.level or (found.high == rule.level and rule.level_is == "below")
    small = rule.level - rule.margin < found.low and found.high < rule.level + rule.margin
    return "not supported" if below or small else "undecided"


def opposite(answer: Answer) -> Answer:
    """The answer to the opposite question."""
    return OPPOSITE.get(answer, answer)


def all_of(answers: Iterable[Answer]) -> Answer:
    """The answer to several questions at once: each must be supported, and one that is not refutes all."""
    found = set(answers)
    return "not supported" if "not supported" in found else "undecided" if "undecided" in found else "supported"


class Form(NamedTuple):
    """How a figure is written, and its unit."""

    number: str
    unit: str


def evidence(what: str, found: Estimate | None, form: Form, fewest: int, missing: str) -> str:
    """A difference with its interval, and how many seeds it is of; `missing` is said if there is none."""
    if found is None:
        return missing
    seeds = counted(found.n, "seed") + (f"; the rule needs at least {fewest}" if found.n < fewest else "")
    mean = f"{what} is {form.number.format(found.mean)} {form.unit}"
    if found.low is None or found.high is None:
        return f"{mean} (no interval, {seeds})"
    return f"{mean} (95% interval {form.number.format(found.low)} to {form.number.format(found.high)}, {seeds})"
