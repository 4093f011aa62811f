"""Charts on the same axes with a slider: complex planes are redrawn from their numbers, others shown or hidden.

What moves a chart through its states is a button, a slider and menus, which stay hidden if no script runs.

A dot of a plane costs some 15 characters as a pair of numbers and some 150 as a drawing with what hovering shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import chain

from .charts import (
    Axis,
    BarChart,
    ComplexPlane,
    HeatMap,
    LineChart,
    PlainChart,
    PointChart,
    SliderChart,
    SmallMultiples,
    TrailChart,
)
from .plots import attribute, colours, finite, framed, null_first, plane_scales, plotted, rounded, shade
from .scales import scale

PLANE_COLUMNS = ("group", "real part", "imaginary part")
SPEEDS = (("0.5", "half"), ("1", "normal"), ("2", "double"), ("4", "fourfold"))


def titled(title: str, where: str) -> str:
    """A title that says where the slider stands."""
    return f'<h2>{escape(title)} <span class="at" dir="auto">{escape(where)}</span></h2>'


def controls(along: str, places: int, at: int, menus: str = "") -> str:
    """A button that plays, a slider over so many places, and what else there is to choose."""
    ends = f'min="0" max="{places - 1}" step="1" value="{at}"'
    return (
        '<div class="controls" hidden="hidden"><button type="button" class="play">Play</button>'
        f'<input type="range" {ends} autocomplete="off" aria-label="{escape(along)}"/>{menus}</div>'
    )


def menu(label: str, kind: str, options: Iterable[tuple[str, str]], chosen: str = "") -> str:
    """A menu of values and what they are called."""
    picked = attribute("selected", "selected")
    listed = "".join(
        f'<option value="{escape(value)}"{picked if value == chosen else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<label>{escape(label)} <select class="{kind}" autocomplete="off">{listed}</select></label>'


def slider(chart: SliderChart) -> str:
    """The chart at the start, and all that is needed to show the others."""
    rows = [one for one in chart.charts if isinstance(one, SmallMultiples)]
    charts = on_same_axes([one for one in chart.charts if not isinstance(one, SmallMultiples)])
    planes = [one for one in charts if isinstance(one, ComplexPlane)]
    if planes:
        names, groups = names_of(planes), dict(planes[chart.start].groups)
        first = replace(planes[chart.start], groups=[(name, groups.get(name, ())) for name in names], title="")
        inside, data = framed(replace(plotted(first), tips=())), embedded_planes(chart.along, planes)
    else:
        drawn = [small(row) for row in rows_on_same_axes(rows)] if rows else [alone(one) for one in charts]
        inside, data = (
            "".join(stops(drawn, chart.start)),
            json.dumps({"stops": [one.title for one in chart.charts]}, ensure_ascii=False),
        )
    head = titled(chart.title, chart.charts[chart.start].title) + controls(chart.along, len(chart.charts), chart.start)
    return f'<div class="slider"{attribute("id", chart.name)}{attribute("data-slider", data)}>{head}{inside}</div>'


def stops(drawn: Sequence[str], start: int) -> Iterable[str]:
    for i, one in enumerate(drawn):
        yield f'<div class="stop"{attribute("hidden", "hidden" * (i != start))}>{one}</div>'


def alone(chart: PlainChart) -> str:
    return framed(replace(plotted(chart), title=""))


def small(charts: Sequence[PlainChart]) -> str:
    return f'<div class="multiples">{"".join(framed(plotted(one), "h3") for one in charts)}</div>'


def rows_on_same_axes(rows: Sequence[SmallMultiples]) -> Iterable[Sequence[PlainChart]]:
    """Small charts that stand in the same place share their axes."""
    places = zip(*(row.charts for row in rows), strict=True)
    return zip(*map(on_same_axes, places), strict=True)


def names_of(planes: Sequence[ComplexPlane]) -> list[str]:
    """Of all groups, each once."""
    return list(dict.fromkeys(name for plane in planes for name, _ in plane.groups))


def embedded_planes(along: str, planes: Sequence[ComplexPlane]) -> str:
    """The numbers of all planes in groups, real and imaginary parts in turn, with what the axes and colours are."""
    across, up = plane_scales(planes[0])
    names = names_of(planes)
    groups = null_first(zip(colours(names, planes[0].muted), names, strict=True))
    data = {
        "stops": [plane.title for plane in planes],
        "columns": [along, *PLANE_COLUMNS],
        "ends": [across.low, across.high, up.low, up.high],
        "groups": [(shade(i), name) for i, name in groups],
        "planes": [[parts(dict(plane.groups).get(name, ())) for _, name in groups] for plane in planes],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def parts(group: Iterable[complex]) -> list[float]:
    every = chain.from_iterable((z.real, z.imag) for z in group if finite(z.real, z.imag))
    return [rounded(one) for one in every]


def on_same_axes(charts: Sequence[PlainChart]) -> list[PlainChart]:
    """Charts of one kind whose axes show what all of them show."""
    found = [extent(chart) for chart in charts]
    xs, ys = ([value for one in found for value in one[side] if finite(value)] for side in (0, 1))
    return [fitted(chart, xs, ys) for chart in charts]


def extent(chart: PlainChart) -> tuple[list[float], list[float]]:
    """All figures along both axes; those of a heat map are its values."""
    match chart:
        case LineChart():
            ys = [y for line in chart.lines for y in (*line.y, *line.low, *line.high)]
            return [x for line in chart.lines for x in line.x], ys if chart.level is None else [*ys, chart.level]
        case PointChart():
            ends = (y for one in chart.points for y in (one.y, one.low, one.high))
            return [one.x for one in chart.points], [y for y in ends if y is not None]
        case TrailChart():
            return [x for one in chart.trails for x in one.x], [y for one in chart.trails for y in one.y]
        case BarChart():
            return [x for bar in chart.bars for x in (0.0, bar.value, bar.low, bar.high) if x is not None], []
        case HeatMap():
            return [abs(value) for row in chart.values for value in row], []
        case ComplexPlane():
            every = [z for _, group in chart.groups for z in group]
            return [z.real for z in every], [z.imag for z in every]


def fitted(chart: PlainChart, xs: list[float], ys: list[float]) -> PlainChart:
    """The chart on axes with room for these figures."""
    match chart:
        case LineChart() | PointChart() | TrailChart():
            return replace(chart, x=wide(chart.x, xs), y=wide(chart.y, ys))
        case BarChart():
            return replace(chart, x=wide(replace(chart.x, log=False), xs))
        case HeatMap():
            return replace(chart, strongest=chart.strongest or max(xs, default=None))
        case ComplexPlane():
            corners = [complex(side(xs), side(ys)) for side in (min, max)] if xs else []
            return replace(chart, shown=corners)


def wide(axis: Axis, values: list[float]) -> Axis:
    """The axis with room for these values."""
    found = scale(axis, values)
    return axis if axis.shown else replace(axis, shown=(found.low, found.high))
