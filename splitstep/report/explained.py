"""What stands below a chart: its equation, how to read it, and a button that saves its figures as a table."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from .charts import (
    BarChart,
    ComplexPlane,
    Explained,
    HeatMap,
    LineChart,
    ParticleChart,
    PlainChart,
    PointChart,
    SliderChart,
    SmallMultiples,
    TrailChart,
)
from .plots import attribute, rounded

Value = str | float | None
ENDS = ("low", "high")
LEVELS = {"_": "sub", "^": "sup"}
PIECE = re.compile(r"([_^])(?:\{|(.))|(\})|([A-Za-z]+)|([^_^}A-Za-z]+)", re.DOTALL)


def explained(chart: Explained, drawn: str) -> str:
    """A drawn chart with what explains it."""
    equation = f'<p class="equation">{equation_to_html(chart.equation)}</p>' if chart.equation else ""
    reading = f'<p class="reading">{escape(chart.reading)}</p>' if chart.reading else ""
    kind = "explained beside" if on_equal_scales(chart) else "explained"
    return (
        f'<div class="{kind}"{attribute("data-figures", own_figures(chart))}>{drawn}<div class="about">'
        f"{equation}{reading}{button(chart.file)}</div></div>"
    )


def on_equal_scales(chart: Explained) -> bool:
    """Whether the chart is about as wide as high, so that there is room beside it."""
    inside = chart.chart
    return isinstance(inside.charts[0] if isinstance(inside, SliderChart) else inside, ComplexPlane)


def button(file: str) -> str:
    if not file:
        return ""
    return (
        f'<button type="button" class="download" data-file="{escape(file)}" hidden="hidden">'
        f"Download the figures<small>{escape(file)}</small></button>"
    )


def own_figures(chart: Explained) -> str:
    """The figures as JSON, unless the script finds them in the chart: those of particles and planes with a slider."""
    inside = chart.chart
    drawn_from_them = isinstance(inside, SliderChart) and on_equal_scales(chart)
    if not chart.file or drawn_from_them or isinstance(inside, ParticleChart):
        return ""
    return json.dumps(figures(inside)._asdict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def equation_to_html(text: str) -> str:
    """An equation whose single letters are variables; `_` lowers and `^` raises a letter or what is in braces."""
    written, closing = list[str](), list[str]()
    for level, letter, close, word, other in PIECE.findall(text):
        if level and letter:
            written.append(f"<{LEVELS[level]}>{symbol(letter)}</{LEVELS[level]}>")
        elif level:
            written.append(f"<{LEVELS[level]}>")
            closing.append(f"</{LEVELS[level]}>")
        elif close and closing:
            written.append(closing.pop())
        else:
            written.append(symbol(close or word or other))
    return "".join([*written, *reversed(closing)])


def symbol(text: str) -> str:
    """A variable if it is one letter; else a word, a number or a sign, with a minus as printers have it."""
    return f"<var>{text}</var>" if re.fullmatch("[A-Za-z]", text) else escape(text.replace("-", "\u2212"))


class Figures(NamedTuple):
    """Named columns, and rows of texts and numbers; what is missing or not finite is None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


def figures(chart: PlainChart | SmallMultiples | SliderChart) -> Figures:
    """What a chart shows, as a table."""
    match chart:
        case SmallMultiples():
            return stacked("chart", chart.charts)
        case SliderChart():
            return stacked(chart.along, chart.charts)
        case _:
            columns, rows = of_one(chart)
            return Figures(columns, [[plain(value) for value in row] for row in rows])


def stacked(head: str, charts: Sequence[PlainChart] | Sequence[SmallMultiples]) -> Figures:
    """The figures of several charts under each other, with the chart's title first."""
    tables = [figures(chart) for chart in charts]
    rows = [[chart.title, *row] for chart, table in zip(charts, tables, strict=True) for row in table.rows]
    return Figures([head, *(tables[0].columns if tables else ())], rows)


def of_one(chart: PlainChart) -> tuple[Sequence[str], Iterable[Sequence[Value]]]:
    match chart:
        case LineChart():
            return ("name", chart.x.title or "x", chart.y.title or "y", *ENDS), of_lines(chart)
        case PointChart():
            return ("name", chart.x.title or "x", chart.y.title or "y", *ENDS, "remark"), chart.points
        case TrailChart():
            return (chart.colour.title or "value", "name", chart.x.title or "x", chart.y.title or "y"), of_trails(chart)
        case BarChart():
            return ("name", chart.x.title or "value", *ENDS), chart.bars
        case HeatMap():
            return (chart.y, chart.x, "value"), of_map(chart)
        case ComplexPlane():
            rows = ((name, z.real, z.imag) for name, group in chart.groups for z in group)
            return ("group", "real part", "imaginary part"), rows


def of_lines(chart: LineChart) -> Iterable[Sequence[Value]]:
    for line in chart.lines:
        for k, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            yield line.name, x, y, *((line.low[k], line.high[k]) if line.low else (None, None))


def of_trails(chart: TrailChart) -> Iterable[Sequence[Value]]:
    for trail in chart.trails:
        for name, x, y in zip(trail.names, trail.x, trail.y, strict=True):
            yield trail.value, name, x, y


def of_map(chart: HeatMap) -> Iterable[Sequence[Value]]:
    for row, values in zip(chart.rows, chart.values, strict=True):
        for column, value in zip(chart.columns, values, strict=True):
            yield row, column, value


def plain(value: Value) -> Value:
    """As JSON has it, numbers with six significant digits."""
    if value is None or isinstance(value, str):
        return value
    return rounded(value, 6) if math.isfinite(value) else None
