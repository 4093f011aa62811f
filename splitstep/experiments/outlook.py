"""What an experiment can show before it is run: the difference that its seeds detect."""

import math
from functools import lru_cache
from typing import NamedTuple

from .looks import Looks
from .noise import Floor
from .statistics import LEVEL, POWER, noncentrality


class Outlook(NamedTuple):
    """The true difference that is shown with the given probability, with an interval as its spread has one."""

    size: float
    low: float
    high: float
    seeds: int
    power: float


def outlook(spread: Floor, seeds: int, many: int, looks: Looks | None = None, power: float = POWER) -> Outlook:
    """What this many seeds detect, or all looks together, where differences have this spread."""
    factor = in_spreads(seeds, many, power) if looks is None else looked_at(looks, power)
    size, low, high = (factor * sd for sd in spread[:3])
    return Outlook(size, low, high, looks.at[-1] if looks else seeds, power)


def in_spreads(seeds: int, many: int, power: float = POWER) -> float:
    """The difference that this many seeds detect, in standard deviations of one seed's."""
    return noncentrality(seeds, 1 - (1 - LEVEL) / many, power) / math.sqrt(seeds)


@lru_cache
def looked_at(looks: Looks, power: float = POWER) -> float:
    """The difference that all looks together detect, in standard deviations of one seed's: the last look alone needs a
    larger one."""
    from scipy.optimize import brentq

    last = noncentrality(looks.at[-1], 1 - looks.level, power) / math.sqrt(looks.at[-1])
    return float(brentq(lambda size: looks.power(size) - power, 0.0, last, xtol=1e-4))  # pyright: ignore[reportArgumentType]
