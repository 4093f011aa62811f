"""An experiment: runs of arms, quantities of runs, means over units with intervals, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Generic, NamedTuple, TypeVar

from .statistics import UNBOUNDED, Bounds, Estimate, estimate, paired_difference

T = TypeVar("T")
ByUnit = Mapping[int, float]
Setting = tuple[str, ...]  # the assignments of one point of a sweep, such as ("train.lr=1e-3",)


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

    values: ByUnit
    bounds: Bounds = UNBOUNDED

    def mean(self) -> Estimate | None:
        """The mean over units, with its interval."""
        return estimate(list(self.values.values()), bounds=self.bounds)

    def minus(self, other: Sample) -> Estimate | None:
        """The mean difference, unit by unit."""
        return paired_difference(self.values, other.values, self.bounds)


def sample(observations: Iterable[Observation[T]], quantity: Quantity[T]) -> Sample:
    """The mean over each unit's runs that finished with a finite figure."""
    found: dict[int, list[float]] = {}
    for one in observations:
        if (value := quantity.seen(one)) is not None:
            found.setdefault(one.unit, []).append(value)
    return Sample({unit: fmean(values) for unit, values in sorted(found.items())}, quantity.bounds)


def by_unit(observations: Iterable[Observation[T]], quantity: Quantity[T]) -> ByUnit:
    """The figure of each unit."""
    return sample(observations, quantity).values


class Difference(NamedTuple):
    """One arm minus another in a figure, paired by the seeds that both have."""

    what: str
    of: str
    to: str
    seeds: tuple[int, ...]
    found: Estimate | None


def difference(what: str, of: str, to: str, ours: ByUnit, theirs: ByUnit, bounds: Bounds = UNBOUNDED) -> Difference:
    """The difference of two arms from the figures of their units; the bounds are those of the figures."""
    return Difference(what, of, to, tuple(sorted(ours.keys() & theirs.keys())), paired_difference(ours, theirs, bounds))


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


def over_units(observations: Iterable[Observation[T]], quantity: Quantity[T]) -> Estimate | None:
    """The mean over units, with its interval."""
    return sample(observations, quantity).mean()


def between(ours: Iterable[Observation[T]], theirs: Iterable[Observation[T]], quantity: Quantity[T]) -> Estimate | None:
    """The mean of one minus the other, unit by unit."""
    return sample(ours, quantity).minus(sample(theirs, quantity))
