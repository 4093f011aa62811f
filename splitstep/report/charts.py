"""Charts as values: what they show, without how it is drawn. `chart_to_html` in `drawing` draws every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

NUMBER = "{:,.4g}"


@dataclass(frozen=True)
class Axis:
    """What an axis measures; `form` prints its values. A logarithmic axis says so in its title, and
    leaves out values that are not positive; a note below the chart says that. With no other values it is linear. An
    axis without a title and a form has no marks: its values only set points apart."""

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


class Chart:
    """What a page shows as a chart."""

    title: str


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines with bands. `reads` says what the figures of a line are, such as "mean [95% interval]"."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    reads: str = ""
    level: float | None = None  # a horizontal line, such as zero
    name: str = ""  # its id in the page
    first: int = 0  # the colour of the first line
    muted: Sequence[str] = ()  # names of lines that are drawn grey and dashed: null models


@dataclass(frozen=True)
class PointChart(Chart):
    """Points with intervals, each at its true place."""

    title: str
    x: Axis
    y: Axis
    points: Sequence[Point]
    reads: str = ""
    name: str = ""


@dataclass(frozen=True)
class TrailChart(Chart):
    """Trails whose colour is a third figure, from one colour at its least value to another at its greatest."""

    title: str
    x: Axis
    y: Axis
    colour: Axis
    trails: Sequence[Trail]
    name: str = ""


@dataclass(frozen=True)
class ComplexPlane(Chart):
    """Groups of complex numbers, on equal scales; with a circle about zero if it has a radius."""

    title: str
    groups: Sequence[tuple[str, Sequence[complex]]]
    radius: float | None = 1.0
    name: str = ""
    muted: Sequence[str] = ()  # names of groups that are drawn grey: null models
    shown: Sequence[complex] = ()  # other numbers for which the axes have room


@dataclass(frozen=True)
class BarChart(Chart):
    """Bars from zero with intervals, one below the other."""

    title: str
    x: Axis
    bars: Sequence[Bar]
    reads: str = ""
    name: str = ""


@dataclass(frozen=True)
class HeatMap(Chart):
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


PlainChart = LineChart | PointChart | TrailChart | ComplexPlane | BarChart | HeatMap


@dataclass(frozen=True)
class SmallMultiples(Chart):
    """Small charts beside each other; if all have the same legend, it is shown once."""

    title: str
    charts: Sequence[PlainChart]


@dataclass(frozen=True)
class SliderChart(Chart):
    """Charts of one kind on the same axes, of which one is shown; a slider moves through them.

    Or rows of small charts, of which one row is shown. The title of each chart or row says where it stands, such as
    "layer 3"; `along` says what the slider runs along.
    """

    title: str
    along: str
    charts: Sequence[PlainChart] | Sequence[SmallMultiples]
    name: str = ""
    start: int = 0  # the chart that is shown first

    def __post_init__(self) -> None:
        assert len({type(chart) for chart in self.charts}) == 1, "a slider needs charts, all of one kind"


class Particles(NamedTuple):
    """The tokens of a text, and of each in every state its place, its cluster and its norm: `x[state][token]`.

    Tokens of one state with the same number are a cluster; the numbers of two states need not agree.
    """

    name: str
    tokens: Sequence[str]
    x: Sequence[Sequence[float]]
    y: Sequence[Sequence[float]]
    cluster: Sequence[Sequence[int]]
    norm: Sequence[Sequence[float]]


@dataclass(frozen=True)
class ParticleChart(Chart):
    """Tokens as particles that move through depth, in a projection that is the same at every depth."""

    title: str
    x: Axis
    y: Axis
    states: Sequence[tuple[str, float]]  # what each is called, such as "layer 3", and its t
    texts: Sequence[Particles]
    name: str = ""

    def __post_init__(self) -> None:
        assert self.states, "particles need a state"
        assert self.texts, "particles need a text"
        for text in self.texts:
            for figures in (text.x, text.y, text.cluster, text.norm):
                assert len(figures) == len(self.states), f"{text.name}: one row of figures for each state"
                assert all(len(row) == len(text.tokens) for row in figures), f"{text.name}: one figure for each token"


@dataclass(frozen=True)
class Explained(Chart):
    """A chart with its equation, a sentence on how to read it, and its figures as a file to download.

    An equation is text with `_` and `^` for what stands lower and higher: "x_{i+1} = x_i + h f(t_i, x_i)".
    The file's name ends in .csv or .json; without a name there is no download.
    """

    chart: PlainChart | SmallMultiples | SliderChart | ParticleChart
    equation: str = ""
    reading: str = ""
    file: str = ""

    @property
    def title(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.chart.title

    def __post_init__(self) -> None:
        assert not self.file or self.file.endswith((".csv", ".json")), f"{self.file} is neither .csv nor .json"
