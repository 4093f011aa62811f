"""Charts that several studies have: losses with a band over seeds, and figures of rows beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..report.charts import Axis, Line, Point, PointChart
from .records import Curve
from .statistics import Estimate

STEP = Axis("step", "{:,.0f}")
LOSS = Axis("loss", log=True)
READS = "mean [least, greatest seed]"
BAND = "The line is the mean over seeds; the band is from the least to the greatest."


def by_step(curves: Mapping[int, Curve]) -> dict[int, dict[int, float]]:
    """The values of each step by seed."""
    values: dict[int, dict[int, float]] = {}
    for seed, curve in curves.items():
        for step, value in zip(*curve, strict=True):
            values.setdefault(step, {})[seed] = value
    return values


def band(found: Sequence[Curve]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps, and the least, mean and greatest value over the runs that reached each."""
    values = by_step(dict(enumerate(found)))
    steps = sorted(values)
    columns = [values[step].values() for step in steps]
    return steps, [min(c) for c in columns], [sum(c) / len(c) for c in columns], [max(c) for c in columns]


def band_line(name: str, found: Sequence[Curve], several: bool) -> Line:
    """The mean of curves, with a band from the least to the greatest if there are several."""
    steps, low, mean, high = band(found)
    return Line(name, steps, mean, *((low, high) if several else ()))


def dots(title: str, y: Axis, found: Sequence[tuple[str, Estimate | None]], reads: str, name: str) -> PointChart:
    """Rows beside each other, a dot with its interval for each; their place along x has no meaning."""
    x = Axis("", "", shown=(-0.5, len(found) - 0.5))
    points = [Point(row, place, *one[:3], one.lacks) for place, (row, one) in enumerate(found) if one is not None]
    return PointChart(title, x, y, points, reads, name)
