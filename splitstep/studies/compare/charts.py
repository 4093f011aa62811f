"""Charts of a comparison: loss curves with bands over seeds, their differences, quality against cost."""

from __future__ import annotations

from ...experiments.records import Curve
from ...experiments.statistics import Estimate, paired_difference
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart, Point, PointChart
from ...tasks.measures import title_of
from .result import Comparison

STEP = Axis("step", "{:,.0f}")
LOSS = Axis("loss", log=True)


def metric_axis(result: Comparison) -> Axis:
    return Axis(title_of(result.metric), result.metric.format)


def curves(result: Comparison, column: str, title: str, y: Axis, name: str) -> LineChart:
    """A figure against the step: the mean over seeds, and a band from the least to the greatest."""
    lines, several = list[Line](), len(result.seeds) > 1
    for row in result.rows:
        steps, low, mean, high = band([getattr(trial, column) for trial in result.chosen(row)])
        lines.append(Line(shortened(row.name), steps, mean, *((low, high) if several else ())))
    return LineChart(title, STEP, y, lines, "mean [least, greatest seed]" if several else "one seed", name=name)


def differences(result: Comparison, column: str, title: str, name: str) -> LineChart:
    """A loss minus the first row's against the step, seed by seed: the mean, and its 95% interval as a band."""
    lines, seen = list[Line](), list[float]()
    first = {trial.seed: getattr(trial, column) for trial in result.chosen(result.rows[0])}
    for row in result.rows[1:]:
        found = {trial.seed: getattr(trial, column) for trial in result.chosen(row)}
        steps, estimates = paired(found, first)
        low = [one.mean if one.low is None else one.low for one in estimates]
        high = [one.mean if one.high is None else one.high for one in estimates]
        banded = any(one.low is not None for one in estimates)
        means = [one.mean for one in estimates]
        lines.append(Line(shortened(row.name), steps, means, *((low, high) if banded else ())))
        late = [k for k, step in enumerate(steps) if step > steps[-1] / 10]
        seen += [end for k in late for end in (low[k], high[k])]
    least, greatest = min(seen, default=0.0), max(seen, default=0.0)
    room = 0.05 * (greatest - least) or 0.01
    shown = min(least, 0.0) - room, max(greatest, 0.0) + room  # the first steps may be far outside
    reads = "mean [95% interval]" if any(line.low for line in lines) else "mean, too few seeds for an interval"
    return LineChart(title, STEP, Axis("difference", "{:+.4f}", shown=shown), lines, reads, 0.0, name, first=1)


def paired(found: dict[int, Curve], reference: dict[int, Curve]) -> tuple[list[int], list[Estimate]]:
    """The steps that two rows share, and the differences of their runs there, paired by seed."""
    ours, theirs = by_step(found), by_step(reference)
    differences = {step: paired_difference(ours[step], theirs[step]) for step in sorted(ours.keys() & theirs.keys())}
    known = {step: one for step, one in differences.items() if one is not None}
    return list(known), list(known.values())


def by_step(curves: dict[int, Curve]) -> dict[int, dict[int, float]]:
    """The values of each step by seed."""
    values: dict[int, dict[int, float]] = {}
    for seed, curve in curves.items():
        for step, value in zip(*curve, strict=True):
            values.setdefault(step, {})[seed] = value
    return values


def band(found: list[Curve]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps, and the least, mean and greatest value over the runs that reached each."""
    values = by_step(dict(enumerate(found)))
    steps = sorted(values)
    columns = [values[step].values() for step in steps]
    return steps, [min(c) for c in columns], [sum(c) / len(c) for c in columns], [max(c) for c in columns]


def quality(result: Comparison, count: str, title: str, name: str) -> PointChart:
    """The test metric with its interval against a counted cost; costs that are nearly equal are not drawn far apart."""
    costs = [getattr(row.cost, count) for row in result.rows]
    room = max(0.15 * (max(costs) - min(costs)), 0.05 * max(costs))
    x = Axis(title, "{:,.0f}", shown=(min(costs) - room, max(costs) + room))
    points = [
        Point(shortened(row.name), getattr(row.cost, count), *row.test[:3], row.test.lacks)
        for row in result.rows
        if row.test
    ]
    reads = f"{title_of(result.metric)}, mean [95% interval]"
    return PointChart("", x, metric_axis(result), points, reads, name)
