"""Charts as values: what they show, without how it is drawn. `chart_to_html` in `drawing` draws every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

NUMBER = "{:,.4g}"


@dataclass(frozen=True)
class Axis:
    """What an axis measures; `form` prints its values. A logarithmic axis says so in its title, and
    leaves out values that are not positive; a note below the chart says that. With no other values it is linear."""

    title: str = ""
    form: str = NUMBER
    log: bool = False
    shown: tuple[float, float] | None = None  # the range, if it is not that of the data
    apart: float = 0.0  # the least distance between two marks: 1 for whole numbers


class Line(NamedTuple):
    """Values against x under one name, with a band from `low` to `high` if it has one."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


class Point(NamedTuple):
    """A point under a name, with the interval of its y if it has one; points of one name have one colour."""

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    remark: str = ""


class Trail(NamedTuple):
    """Points that a line joins, with one value, such as a time, that colours them; each point has a name."""

    value: float
    names: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]


class Bar(NamedTuple):
    """A named value, with its interval if it has one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class LineChart:
    """Lines with bands. `reads` says what the figures of a line are, such as "mean [95% interval]"."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    reads: str = ""
    level: float | None = None  # a horizontal line, such as zero
    name: str = ""  # its id in the page
    first: int = 0  # the colour of the first line


@dataclass(frozen=True)
class PointChart:
    """Points with intervals, each at its true place."""

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    reads: str = ""
    name: str = ""


@dataclass(frozen=True)
class TrailChart:
    """Trails whose colour is a third figure, from one colour at its least value to another at its greatest."""

    title: str
    x: Axis
    y: Axis
    colour: Axis
    trails: Sequence[Trail]
    name: str = ""


@dataclass(frozen=True)
class ComplexPlane:
    """Groups of complex numbers, on equal scales; with a circle about zero if it has a radius."""

    title: str
    groups: Sequence[tuple[str, Sequence[complex]]]
    radius: float | None = 1.0
    name: str = ""


@dataclass(frozen=True)
class BarChart:
    """Bars from zero with intervals, one below the other."""

    title: str
    x: Axis
    bars: Sequence[Bar]
    reads: str = ""
    name: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A matrix of figures: the stronger the colour, the larger; negative ones have another colour."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float]]
    form: str = NUMBER
    name: str = ""
    strongest: float | None = None  # the figure of the strongest colour, if it is not the largest of this map


@dataclass(frozen=True)
class SmallMultiples:
    """Small charts beside each other; if all have the same legend, it is shown once."""

    title: str
    charts: Sequence[LineChart | PointChart | TrailChart | HeatMap]


Chart = LineChart | PointChart | TrailChart | ComplexPlane | BarChart | HeatMap | SmallMultiples
