"""Charts of a comparison: loss curves with bands over seeds, their differences, quality against cost."""

from __future__ import annotations

from typing import Any

from ...report.charts import axis_title, layout, line, over_steps, point, shade, spread_out
from ...tasks.task import title_of
from ..statistics import Estimate, paired_difference
from .result import Comparison, Curve


def metric_axis(result: Comparison) -> dict[str, Any]:
    percent = "%" in result.metric.format
    return {"title": axis_title(title_of(result.metric)), **({"tickformat": ".1%"} if percent else {})}


def curves(result: Comparison, column: str, y: dict[str, Any]) -> dict[str, Any]:
    """A figure against the step: the mean over seeds, and a band from the least to the greatest."""
    data = list[dict[str, Any]]()
    for i, row in enumerate(result.rows):
        steps, low, mean, high = band([getattr(trial, column) for trial in result.chosen(row)])
        data += [*([shade(i, steps, low, high)] * (len(result.seeds) > 1)), line(i, row.name, steps, mean)]
    return over_steps(data, y)


def differences(result: Comparison, column: str) -> dict[str, Any]:
    """A loss minus the first row's against the step, seed by seed: the mean, and its 95% interval as a band."""
    data, seen = list[dict[str, Any]](), list[float]()
    first = {trial.seed: getattr(trial, column) for trial in result.chosen(result.rows[0])}
    for i, row in enumerate(result.rows[1:], 1):
        found = {trial.seed: getattr(trial, column) for trial in result.chosen(row)}
        steps, estimates = paired(found, first)
        low = [one.mean if one.low is None else one.low for one in estimates]
        high = [one.mean if one.high is None else one.high for one in estimates]
        data += [shade(i, steps, low, high), line(i, row.name, steps, [one.mean for one in estimates])]
        late = [k for k, step in enumerate(steps) if step > steps[-1] / 10]
        seen += [end for k in late for end in (low[k], high[k])]
    least, greatest = min(seen, default=0.0), max(seen, default=0.0)
    room = 0.05 * (greatest - least) or 0.01
    shown = [min(least, 0.0) - room, max(greatest, 0.0) + room]  # the first steps may be far outside
    axis = {"title": axis_title("difference of losses"), "zeroline": True, "zerolinecolor": "#8a93a5", "range": shown}
    return over_steps(data, axis)


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


def quality(result: Comparison, count: str, title: str) -> dict[str, Any]:
    """The test metric with its interval against a cost."""
    costs = [getattr(row.cost, count) for row in result.rows]
    pad = max(0.15 * (max(costs) - min(costs)), 0.05 * max(costs))
    xs = spread_out(costs, 0.025 * (max(costs) - min(costs) + 2 * pad))
    data = [
        point(i, row.name, xs[i], row.test[:3], f"{costs[i]:,} {title}")
        for i, row in enumerate(result.rows)
        if row.test
    ]
    x = {"title": axis_title(title), "range": [min(costs) - pad, max(costs) + pad], "tickformat": "~s", "nticks": 6}
    return {"data": data, "layout": layout(x, metric_axis(result))}
