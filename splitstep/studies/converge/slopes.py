"""Powers of the step, fitted: the slope of log y against log h, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ...experiments.statistics import FEWEST, LEVEL, estimate, student_t

Points = Sequence[tuple[float, float]]  # (h, y)


class Slope(NamedTuple):
    """A slope and its 95% interval: Student's over the seeds, or that of one regression over all points."""

    value: float
    low: float | None
    high: float | None
    by: Literal["seeds", "regression"]
    n: int  # seeds, or points

    def text(self) -> str:
        """The slope with its interval, if it has one: 0.98 [0.91, 1.05]."""
        value, *ends = (f"{round(x, 2) + 0.0:.2f}" for x in (self.value, self.low, self.high) if x is not None)
        return f"{value} [{', '.join(ends)}]" if ends else value


def fitted_slope(by_seed: Mapping[int, Points]) -> Slope | None:
    """The slope over the points of every seed that has at least two; None if there is none."""
    usable = {seed: logs for seed, points in by_seed.items() if len(logs := logarithms(points)) > 1}
    if not usable:
        return None
    slopes = [regression(points)[0] for points in usable.values()]
    if len(slopes) >= FEWEST and (over := estimate(slopes)) is not None:
        return Slope(over.mean, over.low, over.high, "seeds", len(slopes))
    every = [point for points in usable.values() for point in points]
    value, error = regression(every)
    half = None if error is None else error * student_t(len(every) - 1, LEVEL)
    ends = (None, None) if half is None else (value - half, value + half)
    return Slope(value, *ends, "regression", len(every))


def logarithms(points: Points) -> list[tuple[float, float]]:
    return [(math.log(h), math.log(y)) for h, y in points if h > 0 and 0 < y < math.inf]


def regression(points: Sequence[tuple[float, float]]) -> tuple[float, float | None]:
    """The slope by least squares and its standard error, which needs three points or more."""
    n = len(points)
    mx, my = (math.fsum(column) / n for column in zip(*points, strict=True))
    sxx = math.fsum((x - mx) ** 2 for x, _ in points)
    slope = math.fsum((x - mx) * (y - my) for x, y in points) / sxx
    if n < 3:
        return slope, None
    left = math.fsum((y - my - slope * (x - mx)) ** 2 for x, y in points)
    return slope, math.sqrt(left / (n - 2) / sxx)
