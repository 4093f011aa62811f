"""Charts of an ablation: every analysis over the layers, and along training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ...experiments.sections import LOSS, READS, STEP, band_line
from ...experiments.statistics import Estimate
from ...report.charts import Axis, HeatMap, Line, LineChart, SmallMultiples, Trail, TrailChart
from .result import GROUP, Ablation, ArmResult, Series, setting_of

LAYER = Axis("layer", "{:.0f}", apart=1.0)
COSINE = Axis("cosine", "{:.3f}")
INTERVAL = "mean [95% interval]"
NONE = Series((), ())


class Figure(NamedTuple):
    """A figure of each layer: its name in the result, a title, an axis, and the number of its first layer."""

    name: str
    title: str
    y: Axis
    first: int = 1
    level: float | None = None
    baseline: str = ""  # what that of the full arm is


def has(result: Ablation, name: str) -> bool:
    """Whether an arm has this figure."""
    return any(name in {**arm.own.series, **arm.own.profiles, **arm.own.maps} for arm in result.arms)


def over_layers(result: Ablation, figure: Figure) -> LineChart:
    """A figure at the end of training over the layers, arm by arm."""
    lines = list[Line]()
    for arm in result.arms:
        found = arm.own.profiles.get(figure.name, ())
        known = [(figure.first + i, one) for i, one in enumerate(found) if one is not None]
        x, y = [layer for layer, _ in known], [one.mean for _, one in known]
        ends = [(one.low, one.high) for _, one in known if one.low is not None and one.high is not None]
        band = map(list, zip(*ends, strict=True)) if len(ends) == len(known) else ()
        lines.append(Line(named(result, arm, figure, bool(known)), x, y, *band))
    reads = INTERVAL if any(line.low for line in lines) else "mean"
    return LineChart(figure.title, LAYER, figure.y, lines, reads, figure.level, f"chart-{figure.name}-layers")


def named(result: Ablation, arm: ArmResult, figure: Figure, known: bool) -> str:
    """The name of an arm's line. An arm without figures has an empty one, so that the others keep their colours."""
    remark = ("" if arm is not result.full else figure.baseline) if known else "no figures"
    return f"{arm.name} ({remark})" if remark else arm.name


def along_training(result: Ablation, figure: Figure, layer: int = -1) -> LineChart:
    """A figure of one layer against the step, arm by arm: means over seeds."""
    found = [(arm, arm.own.series.get(figure.name, NONE)) for arm in result.arms]
    lines = [
        Line(named(result, arm, figure, bool(one.steps)), one.steps, [record[layer] for record in one.values])
        for arm, one in found
    ]
    return LineChart(figure.title, STEP, figure.y, lines, "mean", figure.level, f"chart-{figure.name}-steps")


def loss_curves(result: Ablation, column: str, title: str, name: str) -> LineChart:
    """A loss of each arm at its own rate: the mean over seeds, and a band from the least to the greatest."""
    lines = list[Line]()
    for arm in result.arms:
        chosen = arm.name, setting_of(arm.own.rate)
        found = [getattr(one, column) for one in result.trials if (one.arm, one.setting) == chosen]
        curves = [curve for curve in found if curve.steps]
        lines.append(band_line(arm.name, curves, len(curves) > 1))
    return LineChart(title, STEP, LOSS, lines, READS, name=name)


def on_one_scale(maps: Sequence[HeatMap]) -> SmallMultiples:
    """Heat maps beside each other in which a figure has the same colour."""
    most = max((abs(v) for one in maps for v in chain(*one.values) if math.isfinite(v)), default=1.0)
    return SmallMultiples("", [replace(one, strongest=most) for one in maps])


def numbers(count: int, first: int = 1) -> list[str]:
    return [str(first + i) for i in range(count)]


def gradient_maps(result: Ablation) -> SmallMultiples:
    """The gradient over layer and step, relative to the last layer: its decimal logarithm, a map for each arm."""
    maps = list[HeatMap]()
    for arm in result.arms:
        if (found := arm.own.series.get("gradients")) is not None:
            records = [[logarithm(norm, record[-1]) for norm in record] for record in found.values]
            rows = list(zip(*records, strict=True))[::-1]
            columns = [f"{step:,}" for step in found.steps]
            maps.append(HeatMap(arm.name, "step", "layer", columns, numbers(len(rows), 0)[::-1], rows, "{:+.2f}"))
    return on_one_scale(maps)


def logarithm(ours: float, theirs: float) -> float:
    """The decimal logarithm of a ratio of positive numbers, NaN of others."""
    return math.log10(ours / theirs) if ours > 0 < theirs and math.isfinite(ours / theirs) else math.nan


def group_maps(result: Ablation) -> SmallMultiples:
    """The gradient of each group of parameters in each layer at the end, over the full arm's, a map for each arm."""
    maps, full = list[HeatMap](), result.full.own.profiles
    for arm in result.arms[1:]:
        own = arm.own.profiles
        rows = {name: ratios(own[name], full[name]) for name in full if name.startswith(GROUP) and name in own}
        if rows:
            count = max(map(len, rows.values()))
            even = [[*row, *[math.nan] * (count - len(row))] for row in rows.values()]
            names = [name.removeprefix(GROUP) for name in rows]
            maps.append(HeatMap(arm.name, "layer", "group", numbers(count), names, even, "{:+.2f}"))
    return on_one_scale(maps)


def ratios(ours: Sequence[Estimate | None], theirs: Sequence[Estimate | None]) -> list[float]:
    """The decimal logarithm of each mean over the other one."""
    pairs = zip(ours, theirs, strict=False)
    return [math.nan if a is None or b is None else logarithm(a.mean, b.mean) for a, b in pairs]


def head_maps(result: Ablation, name: str, form: str) -> SmallMultiples:
    """A figure over layer and head at the end of training, a map for each arm."""
    maps = list[HeatMap]()
    for arm in result.arms:
        rows = arm.own.maps.get(name, ())
        if name in arm.own.maps:
            title = f"{arm.name} (two seeds)" if arm is result.full else arm.name
            heads, layers = numbers(len(rows[0]) if rows else 0), numbers(len(rows))[::-1]
            maps.append(HeatMap(title, "head", "layer", heads, layers, rows[::-1], form))
    return on_one_scale(maps)


def information_planes(result: Ablation) -> SmallMultiples:
    """I(Y; T) against I(X; T), a plane for each arm: each line joins the layers of one record, time is the colour."""
    planes, about_x, about_y = list[TrailChart](), *(Axis(f"I({one}; T), nats", "{:.2f}") for one in "XY")
    for arm in result.arms:
        x, y = (arm.own.series.get(f"information_{one}", NONE) for one in "xy")
        if x.steps and y.steps:
            records = zip(x.steps, x.values, y.values, strict=True)
            trails = [Trail(step, [f"layer {i}" for i in range(len(xs))], xs, ys) for step, xs, ys in records]
            planes.append(TrailChart(arm.name, about_x, about_y, STEP, trails))
    return SmallMultiples("Information plane", planes)
