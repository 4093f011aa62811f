"""Differences over a ladder of budgets: what they do as the budget grows, and how many tokens a better arm saves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple

from .looks import Looks, within
from .statistics import FEWEST, Estimate, estimate, regression

EQUAL_COST = 0.01  # relative: costs closer than this are the same
Move = Literal["grows", "fades", "moves", "turns", "holds", "open"]


def leads(arm: Mapping[int, float], first: Mapping[int, float], higher: bool) -> dict[int, float]:
    """The lead of an arm over the first one, by the seeds that both have: positive where the arm is better."""
    sign = 1 if higher else -1
    return {seed: sign * (value - first[seed]) for seed, value in sorted(arm.items()) if seed in first}


class Trend(NamedTuple):
    """What a lead does with the budget.

    One that `grows` or `fades` is the arm's if it is positive at the smallest budget, else the first arm's, and so is
    one that `turns`. A difference that `moves` does so towards the arm if the slope is positive.
    """

    word: Move
    slope: Estimate | None  # per tripling of the budget, over seeds
    means: tuple[Estimate, ...]  # of the lead at each budget


def trend(
    budgets: Sequence[float],
    leads: Sequence[Mapping[int, float]],
    many: int = 1,
    margin: float | None = None,
    at: tuple[int, ...] = (),
) -> Trend:
    """The trend of the leads at each budget, over the seeds that have one at all budgets.

    Intervals hold for `many` arms at once; if seeds were looked at several times, as `at` has it, also at all looks:
    which one was the last depends on the leads. A lead is shown at an end of the ladder by an interval of half that
    error.
    """
    seeds = sorted(set.intersection(*map(set, leads)))
    if not seeds:
        return Trend("open", None, ())
    rows = [[own[seed] for seed in seeds] for own in leads]
    looks = Looks(at or (max(len(seeds), FEWEST),), many)
    means = tuple(mean_of(row, looks) for row in rows)
    if len(budgets) < 2:
        return Trend("open", None, means)
    triplings = [math.log(budget, 3) for budget in budgets]
    slope = mean_of([regression(list(zip(triplings, own, strict=True)))[0] for own in zip(*rows, strict=True)], looks)
    halved = replace(looks, many=2 * many)
    small, large = mean_of(rows[0], halved).sign, mean_of(rows[-1], halved).sign
    change = mean_of([last - first for first, last in zip(rows[0], rows[-1], strict=True)], looks)
    return Trend(move_of(slope.sign, small, large, within(change, margin)), slope, means)


def mean_of(values: Sequence[float], looks: Looks) -> Estimate:
    found = estimate(values, 1 - looks.level)
    assert found is not None, "a mean needs values"
    return found


def move_of(slope: int, small: int, large: int, unchanged: bool) -> Move:
    """The word for signs that are shown, 0 if none is: of the slope, and of the lead at both ends of the ladder."""
    if small * large < 0:
        return "turns"
    if slope:
        return "moves" if not small else "grows" if slope == small else "fades"
    return "holds" if unchanged else "open"


class Ladder(NamedTuple):
    """The losses of an arm at each number of tokens, by seed, and what a token costs it in FLOPs."""

    tokens: Sequence[float]
    losses: Mapping[int, Sequence[float]]
    cost: float = 1.0


class Multiplier(NamedTuple):
    """How many times as much the other arm takes for its loss, by seed; the mean is that of logarithms. Where a seed
    has none there is no mean, and a reason."""

    by_seed: Mapping[int, float]
    mean: Estimate | None
    unit: Literal["tokens", "FLOPs"]
    reason: str = ""


def multiplier(better: Ladder, other: Ladder) -> Multiplier:
    """The tokens of the other arm at the largest budget over those in which the better arm reaches the same loss.

    They are FLOPs if the arms' costs differ. Losses are linear in log tokens between two budgets, which makes the
    multiplier a little too small, for true curves are convex.
    """
    same = math.isclose(better.cost, other.cost, rel_tol=EQUAL_COST)
    dearer = 0.0 if same else math.log(other.cost / better.cost)
    reasons, logs = list[str](), dict[int, float]()
    for seed in sorted(better.losses.keys() & other.losses.keys()):
        own, goal = better.losses[seed], other.losses[seed][-1]
        if reason := beyond_reach(own, goal):
            reasons.append(f"{reason} with seed {seed}")
        else:
            logs[seed] = math.log(other.tokens[-1]) + dearer - reached(better.tokens, own, goal)
    unit = "tokens" if same else "FLOPs"
    by_seed = {seed: math.exp(one) for seed, one in logs.items()}
    mean = None if reasons else estimate(list(logs.values()))
    if mean is None:
        return Multiplier(by_seed, None, unit, reasons[0] if reasons else "no seed has both ladders")
    low, high = (None if end is None else math.exp(end) for end in (mean.low, mean.high))
    return Multiplier(by_seed, Estimate(math.exp(mean.mean), low, high, mean.n), unit)


def beyond_reach(losses: Sequence[float], goal: float) -> str:
    """Why a ladder has no place with this loss; empty if it has one."""
    if not all(map(math.isfinite, (*losses, goal))):
        return "a run diverged"
    if any(after >= before for before, after in pairwise(losses)):
        return "the losses do not fall"
    if goal > losses[0]:
        return "the loss is reached below the smallest budget"
    return "the loss is not reached" if goal < losses[-1] else ""


def reached(tokens: Sequence[float], losses: Sequence[float], goal: float) -> float:
    """The logarithm of the tokens at which falling losses reach the goal, linear in it between two budgets."""
    if len(losses) == 1:
        return math.log(tokens[0])
    k = next(k for k in range(1, len(losses)) if losses[k] <= goal)
    part = (losses[k - 1] - goal) / (losses[k - 1] - losses[k])
    return (1 - part) * math.log(tokens[k - 1]) + part * math.log(tokens[k])
