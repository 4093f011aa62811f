"""What a verb returns, for people who work in Python: one sentence, a table of figures, a page, and its charts as
figures of Matplotlib, where it is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import singledispatch
from itertools import accumulate
from math import ceil
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

from ..support.typed import plain
from . import charts as kinds
from .charts import Axis, Chart
from .document import Document, Verdict
from .drawing import document_to_notebook
from .heat import ends, thinned
from .moving import visible
from .plots import MUTED, finite, line_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

WIDTH, HEIGHT, ACROSS = 6.4, 4.2, 3  # of a chart in inches, and how many stand beside each other
LEGEND, LONGEST = 36, 160  # characters of a line in a legend, and of a result that is printed
NAMED, NAME = 40, 0.16  # particles whose names have room, and the inches of each
FEW, DARKER = 10, 0.85  # particles with colours that are easy to tell apart; for names that can be read
GUIDE = {"color": "grey", "linestyle": "--"}  # of guide lines and of null models


class Report(ABC):
    """JSON values and a document; the rest is made of these."""

    def json(self) -> dict[str, Any]:
        """The result as JSON values."""
        return plain(self)

    @abstractmethod
    def document(self) -> Document:
        """What the result says."""

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The figures, row by row: here the cells of the first table, as it prints them."""
        tables = self.document().tables
        return tables[0].records() if tables else []

    def __init_subclass__(cls, **more: Any) -> None:
        """Results print as one line; `dataclass` replaces no `__repr__` that a class has."""
        super().__init_subclass__(**more)
        cls.__repr__ = Report.__repr__

    def __repr__(self) -> str:
        document = self.document()
        said = document.verdict.sentence if document.verdict else document.title
        return f"<{type(self).__name__}: {shorten(said, LONGEST, placeholder=' ...')}>"

    @property
    def verdict(self) -> Verdict | None:
        """The result in one sentence."""
        return self.document().verdict

    def frame(self) -> DataFrame:
        """The figures as a DataFrame of pandas, one row for each run, network or scheme."""
        try:
            from pandas import json_normalize
        except ImportError:
            raise ModuleNotFoundError("frame() needs pandas: pip install pandas") from None
        return json_normalize([dict(one) for one in self.records()])

    def plot(self, name: str | None = None) -> Figure:
        """A chart of the page as a figure of Matplotlib: the one of this title, else the first."""
        return figure_of(self.document().chart(name))

    def _repr_html_(self) -> str:
        return document_to_notebook(self.document())


def figure_of(chart: Chart) -> Figure:
    """The chart as a figure; small charts stand beside each other, and of a slider's charts the first is shown."""
    try:
        from .figure import Shown
    except ImportError:
        raise ModuleNotFoundError("plot() needs Matplotlib: pip install matplotlib") from None
    while isinstance(chart, kinds.Explained | kinds.SliderChart):
        chart = chart.chart if isinstance(chart, kinds.Explained) else chart.charts[chart.start]
    charts = list(chart.charts) if isinstance(chart, kinds.SmallMultiples) else [chart]
    across = min(len(charts), ACROSS)
    figure = Shown((WIDTH * across, HEIGHT * ceil(len(charts) / across)), layout="constrained")
    for place, one in enumerate(charts, 1):
        drawn_on(one, figure.add_subplot(ceil(len(charts) / across), across, place))
    return figure


def finish(on: Any, title: str, x: Axis, y: Axis, legend: Mapping[str, Any] | None = None) -> None:
    """Titles, scales, and a legend of what was drawn under several names."""
    on.set(title=title, xlabel=x.title, ylabel=y.title)
    for axis, scale in ((x, on.set_xscale), (y, on.set_yscale)):
        if axis.log:
            scale("log", nonpositive="mask")
        elif axis.linear:
            scale("symlog", linthresh=axis.linear)
    if x.ticks:
        on.set_xticks(x.ticks, map(x.form.format, x.ticks))
        on.set_xticks([], minor=True)
    if x.names:
        on.set_xticks(range(len(x.names)), x.names, rotation=30, ha="right")
    elif legend and len(legend) > 1:
        on.legend(legend.values(), [fill(name, LEGEND, break_on_hyphens=False) for name in legend], fontsize="small")


@singledispatch
def drawn_on(chart: Chart, on: Any) -> None:
    """Draw a chart on axes of Matplotlib."""
    raise TypeError(f"{chart!r} is not a chart")


@drawn_on.register
def _lines(chart: kinds.LineChart, on: Any) -> None:
    names = dict[str, Any]()
    for i, line in zip(line_colours(chart), chart.lines, strict=True):
        style = GUIDE if i == MUTED else {"color": f"C{i}"}
        [drawn] = on.plot(line.x, line.y, label=line.name, **style)
        names.setdefault(chart.groups.get(line.name, line.name), drawn)
        if line.low:
            on.fill_between(line.x, line.low, line.high, color=drawn.get_color(), alpha=0.2)
    if chart.guides:
        on.margins(x=0.01)
    for line in chart.guides:
        on.plot(line.x, line.y, label=line.name, linewidth=0.8, **GUIDE)
        beside = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center", "fontsize": 8}
        on.annotate(line.name, (1, line.y[-1]), xytext=(4, 0), **beside)
    if chart.level is not None:
        on.axhline(chart.level, color="grey", linewidth=0.8)
    finish(on, chart.title, chart.x, chart.y, names)


@drawn_on.register
def _points(chart: kinds.PointChart, on: Any) -> None:
    names = dict[str, Any]()
    for name, i in chart.colours.items():
        own = [point for point in chart.points if point.name == name]
        below = [0.0 if one.low is None else one.y - one.low for one in own]
        above = [0.0 if one.high is None else one.high - one.y for one in own]
        x, y = [one.x for one in own], [one.y for one in own]
        names[name] = on.errorbar(x, y, [below, above], fmt="o", capsize=3, label=name, color=f"C{i}")
    if chart.level is not None:
        on.axhline(chart.level, color="grey", linewidth=0.8)
    finish(on, chart.title, chart.x, chart.y, names)


@drawn_on.register
def _trails(chart: kinds.TrailChart, on: Any) -> None:
    for trail in chart.trails:
        on.plot(trail.x, trail.y, marker=".", label=f"{chart.colour.title} {trail.value:g}")
    finish(on, chart.title, chart.x, chart.y)


@drawn_on.register
def _bars(chart: kinds.BarChart, on: Any) -> None:
    below = [0.0 if bar.low is None else bar.value - bar.low for bar in chart.bars]
    above = [0.0 if bar.high is None else bar.high - bar.value for bar in chart.bars]
    on.barh([bar.name for bar in chart.bars], [bar.value for bar in chart.bars], xerr=[below, above])
    on.invert_yaxis()
    on.set(title=chart.title, xlabel=chart.x.title)


@drawn_on.register
def _forest(chart: kinds.Forest, on: Any) -> None:
    for row, bar in enumerate(chart.bars):
        on.fill_betweenx([row - 0.5, row + 0.5], -bar.band, bar.band, color="grey", alpha=0.2, linewidth=0)
        below, above = (0.0 if end is None else abs(end - bar.value) for end in (bar.low, bar.high))
        on.errorbar([bar.value], [row], xerr=[[below], [above]], fmt="o", capsize=3, color="C0")
    on.axvline(0.0, color="grey", linewidth=0.8)
    on.set_yticks(range(len(chart.bars)), [bar.name for bar in chart.bars])
    on.invert_yaxis()
    on.set(title=chart.title, xlabel=chart.x.title)


@drawn_on.register
def _heat(chart: kinds.HeatMap, on: Any) -> None:
    least, most = ends(chart)
    drawn = on.imshow(chart.values, "RdBu" if least else "Blues", aspect="auto", vmin=least, vmax=most)
    on.figure.colorbar(drawn, ax=on, label=chart.what)
    for names, ticks in ((chart.columns, on.set_xticks), (chart.rows, on.set_yticks)):
        places, shown = zip(*thinned(names), strict=True) if names else ((), ())
        ticks([at * len(names) - 0.5 for at in places], shown, parse_math=False)
    on.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)


@drawn_on.register
def _plane(chart: kinds.ComplexPlane, on: Any) -> None:
    names = {name: on.plot([z.real for z in own], [z.imag for z in own], ".")[0] for name, own in chart.groups}
    on.set_aspect("equal")
    finish(on, chart.title, Axis("real part"), Axis("imaginary part"), names)


@drawn_on.register
def _particles(chart: kinds.ParticleChart, on: Any) -> None:
    """The path of each token of the first text in a colour of its own, from a hollow circle to a filled one."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    text, many = chart.texts[0], len(chart.texts[0].tokens)
    found = colormaps["tab10"] if many <= FEW else colormaps["turbo"].resampled(many)
    shades = [tuple(DARKER * part for part in found(i)[:3]) for i in range(many)]
    for shade, x, y in zip(shades, zip(*text.x, strict=True), zip(*text.y, strict=True), strict=True):
        on.plot(x, y, color=shade, alpha=0.6, linewidth=0.8)
    starts = on.scatter(text.x[0], text.y[0], facecolors="none", edgecolors=shades, zorder=3)
    ends = on.scatter(text.x[-1], text.y[-1], c=range(many), cmap=ListedColormap(shades), zorder=3)
    legend = on.legend([starts, ends], [chart.states[0][0], chart.states[-1][0]], fontsize="small")
    for handle, inside in zip(legend.legend_handles, ("none", "grey"), strict=True):
        handle.set(array=None, facecolor=inside, edgecolor="grey")
    finish(on, chart.title, chart.x, chart.y)
    if many <= NAMED:
        on.figure.set_figheight(max(HEIGHT, 1.3 * NAME * many))
        names_beside(text, shades, on)
    else:
        on.figure.colorbar(ends, ax=on, label="place of the token in the text")


def names_beside(text: kinds.Particles, shades: Sequence[Any], on: Any) -> None:
    """The tokens in a column, in the order of their last places, each with a line to its own."""
    last = [(y, x, *more) for x, y, *more in zip(text.x[-1], text.y[-1], text.tokens, shades, strict=True)]
    last = sorted(one for one in last if finite(*one[:2]))
    low, high = on.get_ylim()
    heights = spread([(y - low) / (high - low) for y, *_ in last], NAME / (0.8 * on.figure.get_figheight()))
    for (y, x, token, shade), height in zip(last, heights, strict=True):
        on.annotate(
            visible(token.strip(" ")), (x, y), xytext=(1.04, height), textcoords="axes fraction", va="center",
            fontsize=8, color=shade, parse_math=False,
            arrowprops={"arrowstyle": "-", "color": shade, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkA": 0},
        )  # fmt: skip


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Rising places near those wanted, at least so far apart and at most 1."""
    places, highest = list(accumulate(wanted, lambda before, one: max(one, before + gap))), 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], highest)
        highest = places[i] - gap
    return places
