"""The figures of a chart as a table of columns and rows, for a download."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .charts import (
    BarChart,
    ComplexPlane,
    HeatMap,
    LineChart,
    PlainChart,
    PointChart,
    SliderChart,
    SmallMultiples,
    TrailChart,
)  # fmt: skip
from .plots import rounded

Value = str | float | None
ENDS = ("low", "high")


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
