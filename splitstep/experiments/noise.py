"""The noise floor: how far two arms that are the same lie apart, seed by seed. It decides nothing and is no margin. And
what an experiment can show before it is run: the difference that its seeds detect."""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from .looks import Looks
from .statistics import FEWEST, LEVEL, POWER, ROUNDING, Estimate, jointly, noncentrality, student_t


class Floor(NamedTuple):
    """A standard deviation of differences of n seeds, and its interval."""

    sd: float
    low: float
    high: float
    n: int
    paired: bool = True  # else it is made of one arm's own seeds

    def at(self, level: float) -> "Floor":
        """With an interval of another level: (n - 1) s^2 / sigma^2 has the chi-squared law of n - 1 degrees."""
        from scipy.special import chdtri

        tails = ((1 - level) / 2, (1 + level) / 2)
        low, high = (self.sd * math.sqrt((self.n - 1) / float(chdtri(self.n - 1, tail))) for tail in tails)
        return self._replace(low=low, high=high)

    def band(self, n: int) -> float:
        """t s / sqrt(n): how far from zero a mean of n such differences is found by chance."""
        return student_t(self.n, LEVEL) * self.sd / math.sqrt(n)


def spread(values: Mapping[int, float], scale: float = 1.0, paired: bool = True) -> Floor | None:
    """The standard deviation of the values of seeds, times a factor; too few values, and equal ones, show none."""
    found, n = list(values.values()), len(values)
    if n < FEWEST or max(found) - min(found) <= ROUNDING * max(map(abs, found)):
        return None
    mean = math.fsum(found) / n
    sd = scale * math.hypot(*(value - mean for value in found)) / math.sqrt(n - 1)
    return Floor(sd, sd, sd, n, paired).at(LEVEL)


def noise_floor(first: Mapping[int, float], again: Mapping[int, float] | None = None) -> Floor | None:
    """The spread of the first arm's differences to itself: trained again with the same batches and other weights.

    Without the second training it is sqrt(2) times the spread of the first arm's seeds, which differ in their batches,
    too.
    """
    if again is None:
        return spread(first, math.sqrt(2), paired=False)
    return spread({seed: again[seed] - value for seed, value in sorted(first.items()) if seed in again})


def in_floors(lead: Estimate, floor: Floor) -> Estimate:
    """A lead in noise floors. Its interval is made of two of 97.5%, so it covers in at least 95% of the cases."""
    wide, known = jointly(lead, 2), floor.at(1 - (1 - LEVEL) / 2)
    mean = lead.mean / floor.sd
    if wide.low is None or wide.high is None:
        return Estimate(mean, None, None, lead.n)
    low = wide.low / (known.high if wide.low > 0 else known.low)
    return Estimate(mean, low, wide.high / (known.low if wide.high > 0 else known.high), lead.n)


class Outlook(NamedTuple):
    """The true difference that is shown with the given probability, with an interval as its spread has one."""

    size: float
    low: float
    high: float
    seeds: int
    power: float


def outlook(spread: Floor, seeds: int, many: int, looks: Looks | None = None, power: float = POWER) -> Outlook:
    """What this many seeds detect, or all looks together, where differences have this spread."""
    fixed = noncentrality(seeds, 1 - (1 - LEVEL) / many, power) / math.sqrt(seeds)
    factor = fixed if looks is None else looked_at(looks, power)
    size, low, high = (factor * sd for sd in spread[:3])
    return Outlook(size, low, high, looks.at[-1] if looks else seeds, power)


@lru_cache
def looked_at(looks: Looks, power: float) -> float:
    """The difference that all looks together detect, in standard deviations of one seed's: the last look alone needs a
    larger one."""
    from scipy.optimize import brentq

    last = noncentrality(looks.at[-1], 1 - looks.level, power) / math.sqrt(looks.at[-1])
    return float(brentq(lambda size: looks.power(size) - power, 0.0, last, xtol=1e-4))  # pyright: ignore[reportArgumentType]
