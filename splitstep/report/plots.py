"""Plots as HTML and inline SVG: they fill the width that there is, and take their colours from the page's style.

Lines and bands are SVG stretched to the plot's area, with strokes that keep their width; marks, dots and words are HTML
at percentages of it, so nothing shrinks on a phone. What hovering shows is in `data-tips`, for the page's one script.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from html import escape
from itertools import count
from typing import NamedTuple

from . import charts as kinds
from .charts import Axis, Chart, Scale, extent, scale

COLOURS = 8  # in the style; after these they repeat with another stroke
DASHES = ("", "8 4", "2 3", "8 3 2 3")
MUTED = -1  # the colour of null models, which takes none of the others
FEW = 15  # a line of fewer points has dots
APART = 14  # pixels between points of equal x
TILTED = 22  # characters of a name along x that have room
TALLEST = 32  # of a chart on equal scales, in rem
SIZE = 1000  # of the drawing's own coordinates
BEYOND = "The first steps reach beyond the chart; hovering shows their figures."
NOT_POSITIVE = "A logarithmic axis has no place for figures that are not positive; hovering shows them."
LEFT_OUT = "Points with figures that are not positive have no place on a logarithmic axis and are left out."


def finite(*numbers: float | None) -> bool:
    """Whether these can be drawn: each is a finite number or is not there."""
    return all(one is None or math.isfinite(one) for one in numbers)


def rounded(value: float, digits: int = 4) -> float | int:
    """With so many significant digits, and without a point if it needs none."""
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


class Tip(NamedTuple):
    """What hovering shows at a place; a tip without y is shown anywhere above and below its x."""

    x: float
    y: float | None
    head: str
    lines: Sequence[tuple[int, str]]  # each with its colour


@dataclass(frozen=True)
class Plot:
    """A chart ready to be framed: marks along its axes, drawings, what hovering shows, and names for the legend."""

    title: str
    name: str
    x: Sequence[tuple[float, str]]  # marks at places between 0 and 1
    y: Sequence[tuple[float, str]]  # from the top
    titles: tuple[str, str]  # of the axes
    svg: Sequence[str]
    dots: Sequence[str]
    tips: Sequence[Tip]
    legend: Sequence[tuple[int, str]]  # colours and names
    aspect: float | None = None  # width by height
    height: str = ""  # else that of the style
    note: str = ""
    key: str = ""  # HTML: what colours mean, if they are not names
    tilted: bool = False  # marks along x are names, which need room


def colour(i: int) -> str:
    return f"--c:var(--c{shade(i)})"


def shade(i: int) -> int:
    """The number of a colour in the style."""
    return MUTED if i == MUTED else i % COLOURS


def colours(names: Iterable[str], muted: Sequence[str], first: int = 0) -> list[int]:
    """A colour for each name; those of null models are muted."""
    free = count(first)
    return [MUTED if name in muted else next(free) for name in names]


@singledispatch
def plotted(chart: Chart) -> Plot:
    raise TypeError(f"{chart!r} is not a chart")


def framed(plot: Plot, level: str = "h2") -> str:
    """The plot with its axes around it."""
    marks_y = "".join(f'<span style="top:{100 * at:.2f}%">{escape(text)}</span>' for at, text in plot.y)
    marks_x = "".join(f'<span style="left:{100 * at:.2f}%">{escape(text)}</span>' for at, text in plot.x)
    widest = max((text for _, text in plot.y), key=len, default="")
    grid = [f'<path class="grid" d="M0 {at * SIZE:.1f}H{SIZE}"/>' for at, _ in plot.y]
    grid += [f'<path class="grid" d="M{at * SIZE:.1f} 0V{SIZE}"/>' for at, _ in plot.x]
    tall = f"max-width:{TALLEST * plot.aspect:.1f}rem" if plot.aspect else ""
    longest = min(max((len(text) for _, text in plot.x), default=0), TILTED)
    beside = f' class="marks-x tilted" style="height:{0.3 * longest + 1:.1f}rem"' if plot.tilted else ' class="marks-x"'
    size = f"aspect-ratio:{plot.aspect:.3f};height:auto" if plot.aspect else plot.height and f"height:{plot.height}"
    tips = json.dumps([(round(tip.x, 4), tip.y and round(tip.y, 4), *tip[2:]) for tip in plot.tips], ensure_ascii=False)
    x, y = plot.titles
    note = f'<p class="soft">{escape(plot.note)}</p>' if plot.note else ""
    return (
        f'<div class="chart"{attribute("id", plot.name)}>{headed(plot.title, level)}{legend(plot.legend)}{plot.key}'
        f'<div class="plot"{attribute("style", tall)}{attribute("data-tips", tips)}>'
        f'<div class="title-y">{escape(y)}</div>'
        f'<div class="marks-y"><b>{escape(widest)}</b>{marks_y}</div><div class="area"{attribute("style", size)}>'
        f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" role="img"'
        f"{attribute('aria-label', described(plot))}>{''.join([*grid, *plot.svg])}</svg>{''.join(plot.dots)}</div>"
        f"<div{beside}>{marks_x}</div>"
        f'<div class="title-x">{escape(x)}</div></div>{note}</div>'
    )


def attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def subtitle(name: str, reads: str) -> str:
    """A name, and what the figures below it are."""
    return f"{name} \u00b7 {reads}" if reads else name


def headed(title: str, level: str) -> str:
    return f"<{level}>{escape(title)}</{level}>" if title else ""


def legend(names: Sequence[tuple[int, str]]) -> str:
    swatch = '<svg width="22" height="10"><path class="line"{} d="M0 5H22"/></svg>'
    shown = (f'<span style="{colour(i)}">{swatch.format(dashes(i))}{escape(name)}</span>' for i, name in names)
    return f'<div class="legend">{"".join(shown)}</div>' if names else ""


def dashes(i: int) -> str:
    found = "5 4" if i == MUTED else DASHES[i // COLOURS % len(DASHES)]
    return f' stroke-dasharray="{found}"' if found else ""


def described(plot: Plot) -> str:
    names = ", ".join(name for _, name in (plot.x if plot.tilted else plot.legend))
    against = f" against {plot.titles[0]}" if plot.titles[0] else ""
    return f"{plot.title or plot.titles[1]}{against}{f': {names}' if names else ''}"


def marks(along: Scale, downwards: bool = False) -> list[tuple[float, str]]:
    return [(1 - along.at(value) if downwards else along.at(value), text) for value, text in along.marks()]


def dot(x: float, y: float, i: int, kind: str = "dot", aside: float = 0.0) -> str:
    return f'<i class="{kind}" style="left:{across(x, aside)};top:{100 * y:.2f}%;{colour(i)}"></i>'


def across(x: float, aside: float = 0.0) -> str:
    """A place along x, so many pixels beside it."""
    return f"calc({100 * x:.2f}% + {aside:g}px)" if aside else f"{100 * x:.2f}%"


def level_line(level: float | None, up: Scale) -> list[str]:
    """A horizontal line, if there is one that the axis shows."""
    shown = level is not None and (level > 0 or not up.log)
    return [f'<path class="level" d="M0 {number(1 - up.at(level))}H{SIZE}"/>'] if shown and level is not None else []


def path(points: Iterable[tuple[float, float]]) -> str:
    """A line through points in [0, 1], y downwards, broken where a number is not finite."""
    written, begin = list[str](), True
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            begin = True
            continue
        written.append(f"{'M' if begin else 'L'}{number(x)} {number(y)}")
        begin = False
    return "".join(written)


def number(place: float) -> str:
    return f"{min(max(place, -9.0), 9.0) * SIZE:.1f}".removesuffix(".0")


def interval(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else f" [{form.format(low)}, {form.format(high)}]"


@plotted.register
def _lines(chart: kinds.LineChart) -> Plot:
    xs, ys = extent(chart)
    along, up = scale(chart.x, xs, 0.01), scale(chart.y, ys)
    svg, dots, every = list[str](), list[str](), line_colours(chart)
    named = (chart.groups.get(line.name, line.name) for line in chart.lines)
    legend = list(dict.fromkeys(zip(every, named, strict=True)))
    for i, line in zip(every, chart.lines, strict=True):
        at = [along.at(x) for x in line.x]
        sides = [(x, 1 - up.at(y)) for x, y in zip(at, line.high, strict=bool(line.high))]
        sides += reversed([(x, 1 - up.at(y)) for x, y in zip(at, line.low, strict=bool(line.low))])
        points = [(x, 1 - up.at(y)) for x, y in zip(at, line.y, strict=True)]
        if sides:
            svg.append(f'<path class="band" style="{colour(i)}" d="{path(sides)}Z"/>')
        svg.append(f'<path class="line" style="{colour(i)}"{dashes(i)} d="{path(points)}"/>')
        dots += [dot(x, y, i, "dot small") for x, y in points if len(points) < FEW and 0 <= y <= 1]
    for line in chart.guides:
        points = [(along.at(x), 1 - up.at(y)) for x, y in zip(line.x, line.y, strict=True)]
        svg.append(f'<path class="guide" d="{path(points)}"/>')
        dots.append(f'<span class="guide-name" style="top:{100 * points[-1][1]:.2f}%">{escape(line.name)}</span>')
    svg += level_line(chart.level, up)
    outside = chart.y.shown is not None and any(not up.low <= y <= up.high for line in chart.lines for y in line.y)
    note = " ".join([BEYOND] * outside + [NOT_POSITIVE] * (along.outside or up.outside))
    tips, titles = line_tips(chart, along), titles_of(chart, along, up)
    return Plot(chart.title, chart.name, marks(along), marks(up, True), titles, svg, dots, tips, legend, note=note)


def titles_of(chart: kinds.LineChart | kinds.PointChart, along: Scale, up: Scale) -> tuple[str, str]:
    """The titles of the axes, with what they are drawn on."""
    x, y = (axis.title + kind_of_scale(on) for axis, on in ((chart.x, along), (chart.y, up)))
    return x, y


def kind_of_scale(on: Scale) -> str:
    """What follows the title of an axis that is not linear."""
    return ", logarithmic" if on.log else f", logarithmic beyond ±{on.linear:g}" if on.linear else ""


def line_colours(chart: kinds.LineChart) -> list[int]:
    """A colour for each line, the same for those of one group."""
    names = [chart.groups.get(line.name, line.name) for line in chart.lines]
    if not chart.groups:
        return colours(names, chart.muted, chart.first)
    found = list(dict.fromkeys(names))
    return [colours(found, chart.muted, chart.first)[found.index(name)] for name in names]


def line_tips(chart: kinds.LineChart, along: Scale) -> list[Tip]:
    """At each x the figures of all lines that have one there."""
    found, form = defaultdict[float, list[tuple[int, str]]](list), chart.y.form
    for i, line in zip(line_colours(chart), chart.lines, strict=True):
        for k, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
            ends = interval(line.low[k], line.high[k], form) if line.low else ""
            found[x].append((shade(i), f"{line.name}: {form.format(y)}{ends}"))
    head = f" \u00b7 {chart.reads}" if chart.reads else ""
    return [Tip(along.at(x), None, f"{chart.x.title} {chart.x.form.format(x)}{head}", found[x]) for x in sorted(found)]


@plotted.register
def _points(chart: kinds.PointChart) -> Plot:
    chart = replace(chart, points=[one for one in chart.points if finite(one.x, one.y, one.low, one.high)])
    xs, ys = extent(chart)
    along, up = scale(chart.x, xs, 0.12), scale(chart.y, ys, 0.08)
    order = chart.colours
    drawn = [one for one in chart.points if (one.x > 0 or not along.log) and (one.y > 0 or not up.log)]
    dots, tips, places = list[str](), list[Tip](), [round(along.at(one.x), 2) for one in drawn]
    for k, point in enumerate(drawn):
        i, x, y = order[point.name], along.at(point.x), 1 - up.at(point.y)
        aside = APART * (places[:k].count(places[k]) - (places.count(places[k]) - 1) / 2)
        if point.low is not None and point.high is not None:
            bottom = 1.0 if up.log and point.low <= 0 else 1 - up.at(point.low)
            top = 1 - up.at(point.high)
            place = f"left:{across(x, aside)};top:{100 * top:.2f}%;height:{100 * (bottom - top):.2f}%"
            dots.append(f'<i class="whisker" style="{place};{colour(i)}"></i>')
        dots.append(dot(x, y, i, aside=aside))
        text = f"{chart.y.form.format(point.y)}{interval(point.low, point.high, chart.y.form)}"
        where = "" if chart.x.names else f"{chart.x.title} {chart.x.form.format(point.x)}".strip()
        told = [(i % COLOURS, one) for one in (text, where, point.remark) if one]
        tips.append(Tip(x, y, subtitle(point.name, chart.reads), told))
    legend = [] if chart.x.names else [(i, name) for name, i in order.items()]
    titles, note = titles_of(chart, along, up), LEFT_OUT if len(drawn) < len(chart.points) else ""
    svg, places = level_line(chart.level, up), (marks(along), marks(up, True))
    tilted = bool(chart.x.names)
    return Plot(chart.title, chart.name, *places, titles, svg, dots, tips, legend, note=note, tilted=tilted)


@plotted.register
def _trails(chart: kinds.TrailChart) -> Plot:
    along, up = map(scale, (chart.x, chart.y), extent(chart))
    values = [trail.value for trail in chart.trails] or [0.0]
    least, span = min(values), max(values) - min(values) or 1.0
    svg, dots, tips = list[str](), list[str](), list[Tip]()
    for trail in chart.trails:
        style = f"--c:color-mix(in oklab,var(--late) {100 * (trail.value - least) / span:.0f}%,var(--early))"
        at = [(along.at(x), 1 - up.at(y)) for x, y in zip(trail.x, trail.y, strict=True)]
        svg.append(f'<path class="line thin" style="{style}" d="{path(at)}"/>')
        for name, (x, y), *figures in zip(trail.names, at, trail.x, trail.y, strict=True):
            if finite(x, y):
                dots.append(f'<i class="dot small" style="left:{100 * x:.2f}%;top:{100 * y:.2f}%;{style}"></i>')
                told = (f"{a.title} {a.form.format(one)}" for a, one in zip((chart.x, chart.y), figures, strict=True))
                head = f"{name}, {chart.colour.title} {chart.colour.form.format(trail.value)}"
                tips.append(Tip(x, y, head, [(0, ", ".join(told))]))
    ends = [escape(chart.colour.form.format(value)) for value in (least, max(values))]
    key = f'<div class="key">{escape(chart.colour.title)} {ends[0]}<i></i>{ends[1]}</div>'
    titles = chart.x.title, chart.y.title
    return Plot(chart.title, chart.name, marks(along), marks(up, True), titles, svg, dots, tips, (), key=key)


@plotted.register
def _complex(chart: kinds.ComplexPlane) -> Plot:
    """The dots of a group are one path of round strokes without length: a spectrum has hundreds of them."""
    groups = [(name, [z for z in group if finite(z.real, z.imag)]) for name, group in chart.groups]
    along, up = plane_scales(chart)
    svg, tips = list[str](), list[Tip]()
    if chart.radius is not None:
        wide, high = along.at(chart.radius) - along.at(0), up.at(chart.radius) - up.at(0)
        centre = f'cx="{number(along.at(0))}" cy="{number(1 - up.at(0))}"'
        svg.append(f'<ellipse class="level" {centre} rx="{number(wide)}" ry="{number(high)}"/>')
    legend = list(zip(colours((name for name, _ in groups), chart.muted), (name for name, _ in groups), strict=True))
    for i, name in null_first(legend):
        group = dict(groups)[name]
        at = [(along.at(z.real), 1 - up.at(z.imag)) for z in group]
        places = "".join(f"M{number(x)} {number(y)}h0" for x, y in at)
        svg.append(f'<path class="dots" style="{colour(i)}" d="{places}"/>')
        said = (f"{z.real:.4g}{z.imag:+.4g}i, size {abs(z):.4g}" for z in group)
        tips += [Tip(x, y, name, [(shade(i), text)]) for (x, y), text in zip(at, said, strict=True)]
    aspect = (along.high - along.low) / (up.high - up.low)
    titles = "real part", "imaginary part"
    return Plot(chart.title, chart.name, marks(along), marks(up, True), titles, svg, [], tips, legend, aspect)


def null_first(legend: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """In the order in which they are drawn: null models lie below the others."""
    return sorted(legend, key=lambda one: one[0] != MUTED)


def plane_scales(chart: kinds.ComplexPlane) -> tuple[Scale, Scale]:
    """The axes of a plane, which show its circle whole."""
    around = [] if chart.radius is None else [-chart.radius, chart.radius]
    every = [*chart.shown, *(z for _, group in chart.groups for z in group if finite(z.real, z.imag))]
    along, up = scale(Axis(), [*around, *(z.real for z in every)]), scale(Axis(), [*around, *(z.imag for z in every)])
    return not_thin(along, up), not_thin(up, along)


def not_thin(one: Scale, other: Scale) -> Scale:
    """A scale at least a third as long as the other: on equal scales the chart would be a strip."""
    more = max((other.high - other.low) / 3 - (one.high - one.low), 0.0) / 2
    return one._replace(low=one.low - more, high=one.high + more)


@plotted.register
def _bars(chart: kinds.BarChart) -> Plot:
    chart = replace(chart, bars=[one for one in chart.bars if finite(one.value, one.low, one.high)])
    along, rows = scale(replace(chart.x, log=False), extent(chart)[0]), max(len(chart.bars), 1)
    svg, dots, tips = list[str](), list[str](), list[Tip]()
    for i, bar in enumerate(chart.bars):
        middle, half = (i + 0.68) / rows, 0.2 / rows
        left, right = sorted((along.at(0.0), along.at(bar.value)))
        place = f'x="{number(left)}" y="{number(middle - half)}" width="{number(right - left)}"'
        svg.append(f'<rect class="bar" style="{colour(0)}" {place} height="{number(2 * half)}"/>')
        dots += [named(bar, (i + 0.08) / rows), *whisker(bar, along, middle)]
        text = f"{chart.x.form.format(bar.value)}{interval(bar.low, bar.high, chart.x.form)}"
        tips.append(Tip(along.at(bar.value), middle, subtitle(bar.name, chart.reads), [(0, text)]))
    height = f"{3 * rows + 0.5}rem"
    return Plot(chart.title, chart.name, marks(along), [], (chart.x.title, ""), svg, dots, tips, (), height=height)


def named(bar: kinds.Bar, top: float) -> str:
    return f'<span class="named" style="top:{100 * top:.2f}%">{escape(bar.name)}</span>'


def whisker(bar: kinds.Bar, along: Scale, middle: float) -> list[str]:
    """The interval of a bar, if it has one."""
    if bar.low is None or bar.high is None:
        return []
    low, high = along.at(bar.low), along.at(bar.high)
    where = f"left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%;top:{100 * middle:.2f}%"
    return [f'<i class="whisker across" style="{where}"></i>']


@plotted.register
def _forest(chart: kinds.Forest) -> Plot:
    chart = replace(chart, bars=[one for one in chart.bars if finite(*one[1:])])
    along, rows, form = scale(replace(chart.x, log=False), extent(chart)[0]), max(len(chart.bars), 1), chart.x.form
    svg, dots, tips = [f'<path class="level" d="M{number(along.at(0.0))} 0V{SIZE}"/>'], list[str](), list[Tip]()
    for i, bar in enumerate(chart.bars):
        middle, about = (i + 0.7) / rows, [(0, f"{form.format(bar.value)}{interval(bar.low, bar.high, form)}")]
        if bar.band:
            left, right = along.at(-bar.band), along.at(bar.band)
            place = f'x="{number(left)}" y="{number(i / rows)}" width="{number(right - left)}"'
            svg.append(f'<rect class="band" style="{colour(MUTED)}" {place} height="{number(1 / rows)}"/>')
            about.append((MUTED, f"by chance up to {form.replace('+', '').format(bar.band)}"))
        sure = bar.low is not None and bar.high is not None and not bar.low <= 0 <= bar.high
        point = dot(along.at(bar.value), middle, 0 if sure else MUTED)
        dots += [named(bar, (i + 0.06) / rows), *whisker(bar, along, middle), point]
        tips.append(Tip(along.at(bar.value), middle, subtitle(bar.name, chart.reads), about))
    titles, height = (chart.x.title, ""), f"{max(2.6 * rows + 0.5, 5.0)}rem"
    return Plot(chart.title, chart.name, marks(along), [], titles, svg, dots, tips, (), height=height, note=chart.note)
