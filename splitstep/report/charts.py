"""Charts as values: what they show, without how it is drawn, and the scales of their axes: where a value stands, and
which values have marks. `chart_to_html` in `drawing` draws every chart."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, NamedTuple

FIGURE, NOTEBOOK = "splitstep.report.result:figure_of", "splitstep.report.drawing:chart_to_notebook"  # what draws
NUMBER = "{:,.4g}"
MARKS = 6  # at most about as many on an axis
ROOM = 0.05  # beside the data, of their range


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
    names: Sequence[str] = ()  # of the places 0, 1, 2 ..., which are the only marks
    linear: float = 0.0  # so far from zero the axis is about linear, and beyond it logarithmic, on both sides
    ticks: Sequence[float] = ()  # the values that have marks, if they are not chosen from the range


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
    """A named value, with its interval if it has one, and how far from zero it would be found by chance."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    band: float = 0.0


@dataclass(frozen=True)
class Chart:
    """What a page shows as a chart. A notebook shows it as well, and `.plot()` draws it with Matplotlib."""

    title: str

    def plot(self) -> Any:
        """The chart as a figure of Matplotlib."""
        return resolve_name(FIGURE)(self)

    def _repr_html_(self) -> str:
        return resolve_name(NOTEBOOK)(self)


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines with bands. `reads` says what the figures of a line are, such as "mean [95% interval]"."""

    x: Axis
    y: Axis
    lines: Sequence[Line]
    reads: str = ""
    level: float | None = None  # a horizontal line, such as zero
    name: str = ""  # its id in the page
    first: int = 0  # the colour of the first line
    muted: Sequence[str] = ()  # names of lines that are drawn grey and dashed: null models
    guides: Sequence[Line] = ()  # lines to compare slopes with, which are named where they end
    groups: Mapping[str, str] = field(default_factory=dict)  # of lines that share a colour and a name in the legend


@dataclass(frozen=True)
class PointChart(Chart):
    """Points with intervals; those of equal x stand beside each other. Names along x stand for a legend."""

    x: Axis
    y: Axis
    points: Sequence[Point]
    reads: str = ""
    name: str = ""
    level: float | None = None  # a horizontal line, such as the limit of a rule

    @property
    def colours(self) -> dict[str, int]:
        """The colour of each name, the same whether or not the others have points."""
        every = {name: i for i, name in enumerate(dict.fromkeys((*self.x.names, *(one.name for one in self.points))))}
        return {one.name: every[one.name] for one in self.points}


@dataclass(frozen=True)
class TrailChart(Chart):
    """Trails whose colour is a third figure, from one colour at its least value to another at its greatest."""

    x: Axis
    y: Axis
    colour: Axis
    trails: Sequence[Trail]
    name: str = ""


@dataclass(frozen=True)
class ComplexPlane(Chart):
    """Groups of complex numbers, on equal scales; with a circle about zero if it has a radius."""

    groups: Sequence[tuple[str, Sequence[complex]]]
    radius: float | None = 1.0
    name: str = ""
    muted: Sequence[str] = ()  # names of groups that are drawn grey: null models
    shown: Sequence[complex] = ()  # other numbers for which the axes have room


@dataclass(frozen=True)
class BarChart(Chart):
    """Bars from zero with intervals, one below the other."""

    x: Axis
    bars: Sequence[Bar]
    reads: str = ""
    name: str = ""


@dataclass(frozen=True)
class Forest(Chart):
    """Values with intervals beside zero, one below the other; those whose interval includes zero are grey. `note` says
    what the bands are."""

    x: Axis
    bars: Sequence[Bar]
    reads: str = ""
    name: str = ""
    note: str = ""


@dataclass(frozen=True)
class HeatMap(Chart):
    """A matrix of figures: the stronger the colour, the larger; negative ones have another colour."""

    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float]]
    form: str = NUMBER
    name: str = ""
    strongest: float | None = None  # the figure of the strongest colour, if it is not the largest of this map
    signed: bool | None = None  # whether the scale of colours has negative figures, if this map alone does not decide
    what: str = ""  # what the figures are, with their unit


PlainChart = LineChart | PointChart | TrailChart | ComplexPlane | BarChart | Forest | HeatMap


@dataclass(frozen=True)
class SmallMultiples(Chart):
    """Small charts beside each other; if all have the same legend, it is shown once."""

    charts: Sequence[PlainChart]


@dataclass(frozen=True)
class SliderChart(Chart):
    """Charts of one kind on the same axes, of which one is shown; a slider moves through them.

    Or rows of small charts, of which one row is shown. The title of each chart or row says where it stands, such as
    "layer 3"; `along` says what the slider runs along.
    """

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

    title: str = field(init=False)
    chart: PlainChart | SmallMultiples | SliderChart | ParticleChart
    equation: str = ""
    reading: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        assert not self.file or self.file.endswith((".csv", ".json")), f"{self.file} is neither .csv nor .json"
        object.__setattr__(self, "title", self.chart.title)


class Scale(NamedTuple):
    """A range of values along an axis, linear or logarithmic."""

    low: float
    high: float
    log: bool
    form: str
    apart: float = 0.0  # the least distance between two marks
    outside: bool = False  # some values have no place, since a logarithmic axis shows positive ones alone
    names: Sequence[str] = ()
    linear: float = 0.0
    ticks: Sequence[float] = ()

    def at(self, value: float) -> float:
        """Where a value stands: 0 at the low end and 1 at the high end; on a logarithmic axis, zero is far below."""
        if self.log:
            low, high, value = math.log(self.low), math.log(self.high), math.log(max(value, 1e-300))
        elif self.linear:
            low, high, value = (math.asinh(one / self.linear) for one in (self.low, self.high, value))
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low)

    def marks(self) -> list[tuple[float, str]]:
        """Values with marks, and how they are written; none if they have no format and no names."""
        if self.names:
            return list(enumerate(self.names))
        if self.ticks:
            return [(value, self.form.format(value)) for value in self.ticks if self.low <= value <= self.high]
        if not self.form:
            return []
        if self.log and math.log10(self.high) - math.log10(self.low) >= 0.9:
            return [(value, short(value)) for value in decades(self.low, self.high)]
        if 0 < self.linear < max(-self.low, self.high):
            below, above = (decades(self.linear, max(end, self.linear / 2)) for end in (-self.low, self.high))
            return [(value, short(value)) for value in (*(-one for one in reversed(below)), 0.0, *above)]
        step = max(nice((self.high - self.low) / MARKS), self.apart)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(k * step, self.write(k * step, step)) for k in range(first, last + 1)]

    def write(self, value: float, step: float) -> str:
        """A value with as many decimals as its step needs."""
        if "%" in self.form:
            return f"{value:.{decimals(step * 100)}%}"
        return short(value, step) if abs(self.high) >= 10_000 else f"{value:,.{decimals(step)}f}"


def scale(axis: Axis, values: Iterable[float], room: float = ROOM) -> Scale:
    """The scale of an axis that shows these values, with a little room beside them."""
    every = [value for value in values if math.isfinite(value)]
    positive = [value for value in every if value > 0]
    log = axis.log and bool(positive)
    found = positive if log else every
    low, high = axis.shown or (min(found, default=0.0), max(found, default=1.0))
    if axis.shown is None and log:
        wider = math.exp(room * max(math.log(high) - math.log(low), 0.1))
        low, high = max(low / wider, 1e-300), high * wider
    elif axis.shown is None and axis.linear:
        ends = [math.asinh(one / axis.linear) for one in (min(low, 0.0), max(high, 0.0))]
        wider = room * (ends[1] - ends[0]) or room
        low, high = (axis.linear * math.sinh(end) for end in (ends[0] - wider, ends[1] + wider))
    elif axis.shown is None:
        wider = room * (high - low) or abs(high) * room or 1.0
        low, high = low - wider, high + wider
    hidden = len(found) < len(every)
    return Scale(low, high, log, axis.form, axis.apart, hidden, axis.names, axis.linear, axis.ticks)


def extent(chart: PlainChart) -> tuple[list[float], list[float]]:
    """All figures along both axes; those of a heat map are its values."""
    match chart:
        case LineChart():
            ys = [y for line in (*chart.lines, *chart.guides) for y in (*line.y, *line.low, *line.high)]
            return [x for line in chart.lines for x in line.x], ys if chart.level is None else [*ys, chart.level]
        case PointChart():
            ends = [chart.level, *(y for one in chart.points for y in (one.y, one.low, one.high))]
            return [one.x for one in chart.points], [y for y in ends if y is not None]
        case TrailChart():
            return [x for one in chart.trails for x in one.x], [y for one in chart.trails for y in one.y]
        case BarChart() | Forest():
            ends = (x for bar in chart.bars for x in (0.0, bar.value, bar.low, bar.high, bar.band, -bar.band))
            return [x for x in ends if x is not None], []
        case HeatMap():
            return [value for row in chart.values for value in row], []
        case ComplexPlane():
            every = [z for _, group in chart.groups for z in group]
            return [z.real for z in every], [z.imag for z in every]


def nice(step: float) -> float:
    """The next larger 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def decimals(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten in a range; if it is a wide one, powers of ten alone, or some of them."""
    span = math.log10(high) - math.log10(low)
    factors = (1, 2, 5) if span < 3 else (1,)
    every = max(1, math.ceil(span / (MARKS + 1)))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers if power % every == 0 for factor in factors]
    return [value for value in found if low <= value <= high]


def short(value: float, step: float | None = None) -> str:
    """A large number with a letter for its thousands, and with as many decimals as its step needs: 2.5M."""
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e15):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(value) >= factor:
            digits = ".4g" if step is None else f".{decimals(step / factor)}f"
            return f"{value / factor:{digits}}{letter}"
    return f"{value:.4g}"
