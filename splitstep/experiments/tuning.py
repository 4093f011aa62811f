"""Learning rates of arms: which to try next, and which is best, by losses that no verdict uses."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

FURTHER = 2  # times that a rate is added at an end of the ladder
Losses = Mapping[tuple[str, float], float]  # on validation, by arm and rate; a run that diverged has an infinite one


class Tuned(NamedTuple):
    """What is still to be tried, the best rate of each arm once nothing is, and the arms for which it is at an end of
    the ladder, so a better one may lie beyond."""

    missing: tuple[tuple[str, float], ...]
    best: Mapping[str, float]
    at_edge: tuple[str, ...] = ()


def tune(losses: Losses, arms: Sequence[str], rates: Collection[float], further: int = FURTHER) -> Tuned:
    """All arms at all rates; where a best rate is the least or the greatest one, a rate beyond it for all arms, twice
    at most. Call it again with the losses of what is missing."""
    ladder = sorted(rates)
    tuned = choose(losses, dict.fromkeys(arms, ladder))
    if tuned.missing or len(ladder) < 2:
        return tuned
    ends = {rate for rate in (ladder[0], ladder[-1]) if rate in tuned.best.values()}
    if ends and further:
        return tune(losses, arms, {*ladder, *(beyond(ladder, end) for end in ends)}, further - 1)
    return tuned._replace(at_edge=tuple(arm for arm, rate in tuned.best.items() if rate in ends))


def choose(losses: Losses, rates: Mapping[str, Sequence[float]]) -> Tuned:
    """The best of each arm's own rates; of equally good ones the smallest, as where all of them diverged."""
    missing = tuple((arm, rate) for arm, own in rates.items() for rate in own if (arm, rate) not in losses)
    best = {} if missing else {arm: ranked(losses, arm, own)[0] for arm, own in rates.items()}
    return Tuned(missing, best)


def best_two(losses: Losses, arms: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The two best rates of each arm, which the next larger budget tries."""
    tried = {arm: [rate for name, rate in losses if name == arm] for arm in arms}
    return {arm: tuple(sorted(ranked(losses, arm, own)[:2])) for arm, own in tried.items()}


def ranked(losses: Losses, arm: str, rates: Sequence[float]) -> list[float]:
    """An arm's rates from the best one on; losses that are no numbers are infinite."""

    def loss(rate: float) -> float:
        found = losses[arm, rate]
        return found if math.isfinite(found) else math.inf

    return sorted(sorted(rates), key=loss)


def beyond(ladder: Sequence[float], end: float) -> float:
    """The rate that continues the ladder at one of its ends, with three digits."""
    next_to = ladder[1] if end == ladder[0] else ladder[-2]
    return float(f"{end * end / next_to:.3g}")
