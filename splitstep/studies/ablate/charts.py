"""Charts of an ablation: every analysis over the layers, and along training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ...experiments.sections import LOSS, READS, STEP, band_line
from ...experiments.statistics import Estimate
from ...experiments.trials import Curve
from ...report.charts import Axis, HeatMap, Line, LineChart, SmallMultiples, Trail, TrailChart
from .plan import setting_of
from .records import GROUP
from .result import Ablation, ArmResult, Series

LAYER = Axis("layer", "{:.0f}", apart=1.0)
COSINE = Axis("cosine", "{:.3f}")
INTERVAL = "mean [95% interval]"


class Figure(NamedTuple):
    """A figure of each layer: its name in the result, a title, an axis, and the number of its first layer."""

    name: str
    title: str
    y: Axis
    first: int = 1
    level: float | None = None


def over_layers(result: Ablation, figure: Figure, baseline: str = "") -> LineChart:
    """A figure at the end of training over the layers, arm by arm; `baseline` says what that of the full arm is."""
    lines = list[Line]()
    for arm in result.arms:
        found = arm.own.profiles.get(figure.name, ())
        known = [(figure.first + i, one) for i, one in enumerate(found) if one is not None]
        lines.append(profile_line(named(result, arm, baseline, bool(known)), known))
    reads = INTERVAL if any(line.low for line in lines) else "mean"
    return LineChart(figure.title, LAYER, figure.y, lines, reads, figure.level, f"chart-{figure.name}-layers")


def named(result: Ablation, arm: ArmResult, baseline: str, known: bool) -> str:
    """The name of an arm's line. An arm without figures has an empty one, so that the others keep their colours."""
    remark = ("" if arm is not result.full else baseline) if known else "no figures"
    return f"{arm.name} ({remark})" if remark else arm.name


def profile_line(name: str, known: Sequence[tuple[int, Estimate]]) -> Line:
    x, y = [layer for layer, _ in known], [one.mean for _, one in known]
    if any(one.low is None for _, one in known):
        return Line(name, x, y)
    return Line(name, x, y, [one.low or 0.0 for _, one in known], [one.high or 0.0 for _, one in known])


def along_training(result: Ablation, figure: Figure, layer: int = -1, baseline: str = "") -> LineChart:
    """A figure of one layer against the step, arm by arm: means over seeds."""
    lines = list[Line]()
    for arm in result.arms:
        found = arm.own.series.get(figure.name, Series((), ()))
        name = named(result, arm, baseline, bool(found.steps))
        lines.append(Line(name, found.steps, [record[layer] for record in found.values]))
    return LineChart(figure.title, STEP, figure.y, lines, "mean", figure.level, f"chart-{figure.name}-steps")


def has(result: Ablation, *names: str) -> bool:
    """Whether an arm has one of these figures."""
    return any(name in arm.own.series or name in arm.own.profiles for arm in result.arms for name in names)


def heat_maps(result: Ablation, figure: Figure, change: Callable[[Sequence[float]], list[float]]) -> SmallMultiples:
    """A figure over layer and step, a map for each arm, all with one scale; `change` is applied to each record."""
    found = {arm.name: arm.own.series[figure.name] for arm in result.arms if figure.name in arm.own.series}
    changed = {
        name: series._replace(values=tuple(tuple(change(v)) for v in series.values)) for name, series in found.items()
    }
    most = max((abs(v) for s in changed.values() for row in s.values for v in row if math.isfinite(v)), default=1.0)
    return SmallMultiples(figure.title, [heat_map(name, series, figure, most) for name, series in changed.items()])


def heat_map(name: str, series: Series, figure: Figure, most: float) -> HeatMap:
    layers = range(len(series.values[0]) if series.values else 0)
    rows = [[record[layer] for record in series.values] for layer in reversed(layers)]
    columns, names = [f"{step:,}" for step in series.steps], [str(figure.first + layer) for layer in reversed(layers)]
    return HeatMap(name, "step", "layer", columns, names, rows, figure.y.form, strongest=most)


def relative_to_last(norms: Sequence[float]) -> list[float]:
    """The decimal logarithm of each norm over the last one."""
    last = norms[-1]
    return [math.log10(one / last) if one > 0 and last > 0 and math.isfinite(one / last) else math.nan for one in norms]


def group_maps(result: Ablation) -> SmallMultiples:
    """The gradient of each group of parameters in each layer at the end, over the full arm's, a map for each arm."""
    groups = [name for name in result.full.own.profiles if name.startswith(GROUP)]
    charts = list[HeatMap]()
    for arm in result.arms[1:]:
        known = [name for name in groups if name in arm.own.profiles]
        if not known:
            continue
        rows = [ratios(arm.own.profiles[name], result.full.own.profiles[name]) for name in known]
        layers = [str(1 + i) for i in range(max(map(len, rows), default=0))]
        even = [[*row, *[math.nan] * (len(layers) - len(row))] for row in rows]
        names = [name.removeprefix(GROUP) for name in known]
        charts.append(HeatMap(arm.name, "layer", "group", layers, names, even, "{:+.2f}"))
    most = max((abs(v) for chart in charts for v in chain(*chart.values) if math.isfinite(v)), default=1.0)
    return SmallMultiples("", [replace(chart, strongest=most) for chart in charts])


def ratios(ours: Sequence[Estimate | None], theirs: Sequence[Estimate | None]) -> list[float]:
    """The decimal logarithm of each mean over the other one."""
    pairs = zip(ours, theirs, strict=False)
    return [
        math.log10(a.mean / b.mean) if a is not None and b is not None and a.mean > 0 < b.mean else math.nan
        for a, b in pairs
    ]


def head_maps(result: Ablation, name: str, title: str, form: str) -> SmallMultiples:
    """A figure over layer and head at the end of training, a map for each arm, all with one scale."""
    found = {arm.name: arm.own.maps[name] for arm in result.arms if name in arm.own.maps}
    most = max((abs(v) for rows in found.values() for row in rows for v in row if math.isfinite(v)), default=1.0)
    return SmallMultiples(title, [head_map(result, arm, rows, form, most) for arm, rows in found.items()])


def head_map(result: Ablation, arm: str, rows: Sequence[Sequence[float]], form: str, most: float) -> HeatMap:
    title = f"{arm} (two seeds)" if arm == result.full.name else arm
    heads = [str(i + 1) for i in range(len(rows[0]) if rows else 0)]
    layers = [str(i + 1) for i in reversed(range(len(rows)))]
    return HeatMap(title, "head", "layer", heads, layers, list(reversed(rows)), form, strongest=most)


def information_planes(result: Ablation) -> SmallMultiples:
    """I(Y; T) against I(X; T), a plane for each arm: each line joins the layers of one record, time is the colour."""
    arms = [arm for arm in result.arms if "information_x" in arm.own.series and "information_y" in arm.own.series]
    return SmallMultiples("Information plane", [information_plane(arm) for arm in arms])


def information_plane(arm: ArmResult) -> TrailChart:
    about_x, about_y = arm.own.series["information_x"], arm.own.series["information_y"]
    trails = [
        Trail(step, [f"layer {i}" for i in range(len(x))], x, y)
        for step, x, y in zip(about_x.steps, about_x.values, about_y.values, strict=True)
    ]
    return TrailChart(arm.name, Axis("I(X; T), nats", "{:.2f}"), Axis("I(Y; T), nats", "{:.2f}"), STEP, trails)


def loss_curves(result: Ablation, column: str, title: str, name: str) -> LineChart:
    """A loss of each arm at its own rate: the mean over seeds, and a band from the least to the greatest."""
    lines = list[Line]()
    for arm in result.arms:
        curves: list[Curve] = [
            getattr(t, column)
            for t in result.trials
            if (t.arm, t.setting) == (arm.name, setting_of(arm.own.rate)) and getattr(t, column).steps
        ]
        lines.append(band_line(arm.name, curves, len(curves) > 1))
    return LineChart(title, STEP, LOSS, lines, READS, name=name)
