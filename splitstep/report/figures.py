"""Charts as figures of Matplotlib, where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from math import ceil
from typing import TYPE_CHECKING, Any

from . import charts as kinds
from .charts import Axis, Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT, ACROSS = 6.4, 4.2, 3  # of a chart in inches, and how many stand beside each other


def figure_of(chart: Chart) -> Figure:
    """The chart as a figure; small charts stand beside each other, and of a slider's charts the first is shown."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ModuleNotFoundError("plot() needs Matplotlib: pip install matplotlib") from None
    while isinstance(chart, kinds.Explained | kinds.SliderChart):
        chart = chart.chart if isinstance(chart, kinds.Explained) else chart.charts[chart.start]
    charts = list(chart.charts) if isinstance(chart, kinds.SmallMultiples) else [chart]
    across = min(len(charts), ACROSS)
    figure = Figure((WIDTH * across, HEIGHT * ceil(len(charts) / across)), layout="constrained")
    for place, one in enumerate(charts, 1):
        drawn_on(one, figure.add_subplot(ceil(len(charts) / across), across, place))
    return figure


def axes_of(on: Any, title: str, x: Axis, y: Axis) -> None:
    """Titles and scales."""
    on.set(title=title, xlabel=x.title, ylabel=y.title)
    for axis, scale in ((x, on.set_xscale), (y, on.set_yscale)):
        if axis.log:
            scale("log", nonpositive="mask")


def legend_of(on: Any, names: Sequence[str]) -> None:
    if len(set(names)) > 1:
        on.legend()


@singledispatch
def drawn_on(chart: Chart, on: Any) -> None:
    """Draw a chart on axes of Matplotlib."""
    raise TypeError(f"{chart!r} is not a chart")


@drawn_on.register
def _lines(chart: kinds.LineChart, on: Any) -> None:
    for line in chart.lines:
        style = {"color": "grey", "linestyle": "--"} if line.name in chart.muted else {}
        [drawn] = on.plot(line.x, line.y, label=line.name, **style)
        if line.low:
            on.fill_between(line.x, line.low, line.high, color=drawn.get_color(), alpha=0.2)
    if chart.level is not None:
        on.axhline(chart.level, color="grey", linewidth=0.8)
    axes_of(on, chart.title, chart.x, chart.y)
    legend_of(on, [line.name for line in chart.lines])


@drawn_on.register
def _points(chart: kinds.PointChart, on: Any) -> None:
    for name in dict.fromkeys(point.name for point in chart.points):
        own = [point for point in chart.points if point.name == name]
        below = [one.y - (one.y if one.low is None else one.low) for one in own]
        above = [(one.y if one.high is None else one.high) - one.y for one in own]
        on.errorbar([one.x for one in own], [one.y for one in own], [below, above], fmt="o", capsize=3, label=name)
    axes_of(on, chart.title, chart.x, chart.y)
    legend_of(on, [point.name for point in chart.points])


@drawn_on.register
def _trails(chart: kinds.TrailChart, on: Any) -> None:
    for trail in chart.trails:
        on.plot(trail.x, trail.y, marker=".", label=f"{chart.colour.title} {trail.value:g}")
    axes_of(on, chart.title, chart.x, chart.y)


@drawn_on.register
def _bars(chart: kinds.BarChart, on: Any) -> None:
    ends = [(b.value if b.low is None else b.low, b.value if b.high is None else b.high) for b in chart.bars]
    apart = [[b.value - low for b, (low, _) in zip(chart.bars, ends, strict=True)],
             [high - b.value for b, (_, high) in zip(chart.bars, ends, strict=True)]]  # fmt: skip
    on.barh([bar.name for bar in chart.bars], [bar.value for bar in chart.bars], xerr=apart)
    on.invert_yaxis()
    on.set(title=chart.title, xlabel=chart.x.title)


@drawn_on.register
def _heat(chart: kinds.HeatMap, on: Any) -> None:
    on.figure.colorbar(on.imshow(chart.values, aspect="auto"), ax=on)
    on.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)


@drawn_on.register
def _plane(chart: kinds.ComplexPlane, on: Any) -> None:
    for name, group in chart.groups:
        on.plot([z.real for z in group], [z.imag for z in group], ".", label=name)
    on.set(title=chart.title, xlabel="real part", ylabel="imaginary part", aspect="equal")
    legend_of(on, [name for name, _ in chart.groups])


@drawn_on.register
def _particles(chart: kinds.ParticleChart, on: Any) -> None:
    """The last state of the first text."""
    text = chart.texts[0]
    on.scatter(text.x[-1], text.y[-1], c=text.cluster[-1], cmap="tab10")
    axes_of(on, f"{chart.title}, {chart.states[-1][0]}", chart.x, chart.y)
