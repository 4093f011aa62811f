"""Charts that move: complex planes and particles are redrawn from their numbers, other charts shown or hidden.

What moves a chart through its states is a button, a slider and menus, which stay hidden if no script runs.

A dot of a plane costs some 15 characters as a pair of numbers and some 150 as a drawing with what hovering shows.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import chain, count
from typing import Any

from . import charts as kinds
from . import plots
from .charts import Axis, ParticleChart, Particles, PlainChart, Scale, SliderChart, extent, scale
from .heat import on_one_scale

SPEEDS = (("0.5", "half"), ("1", "normal"), ("2", "double"), ("4", "fourfold"))
COLOURS = (("cluster", "cluster"), ("norm", "norm"))
PLACES = 999  # along each axis of particles: places are whole numbers, so that pages stay small
TRAIL = 10  # states that a trail goes back
ALONE = -1  # the cluster of a token that has one to itself
BEYOND = "Hollow particles at the edge are beyond it."
CLUSTERS = "Tokens of one cluster have one colour; tokens alone are grey."


def slider(chart: SliderChart) -> str:
    """The chart at the start, and all that is needed to show the others."""
    rows = [one for one in chart.charts if isinstance(one, kinds.SmallMultiples)]
    charts = on_same_axes([one for one in chart.charts if not isinstance(one, kinds.SmallMultiples)])
    planes = [one for one in charts if isinstance(one, kinds.ComplexPlane)]
    if planes:
        groups = {name: () for plane in planes for name, _ in plane.groups} | dict(planes[chart.start].groups)
        first = replace(planes[chart.start], groups=list(groups.items()), title="")
        data, inside = embedded_planes(chart.along, planes), plots.framed(replace(plots.plotted(first), tips=()))
    else:
        drawn = [plots.framed(replace(plots.plotted(one), title="")) for one in charts]
        places = zip(*(row.charts for row in rows), strict=True)  # charts in the same place share their axes
        for row in zip(*map(on_same_axes, places), strict=True):
            small = "".join(plots.framed(plots.plotted(one), "h3") for one in row)
            drawn.append(f'<div class="multiples">{small}</div>')
        data = json.dumps({"stops": [one.title for one in chart.charts]}, ensure_ascii=False)
        hidden = (plots.attribute("hidden", "hidden" * (i != chart.start)) for i in range(len(drawn)))
        inside = "".join(f'<div class="stop"{kind}>{one}</div>' for kind, one in zip(hidden, drawn, strict=True))
    head = titled(chart.title, chart.charts[chart.start].title) + controls(chart.along, len(chart.charts), chart.start)
    attributes = plots.attribute("id", chart.name) + plots.attribute("data-slider", data)
    return f'<div class="slider"{attributes}>{head}{inside}</div>'


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
    picked = plots.attribute("selected", "selected")
    listed = "".join(
        f'<option value="{escape(value)}"{picked if value == chosen else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<label>{escape(label)} <select class="{kind}" autocomplete="off">{listed}</select></label>'


def embedded_planes(along: str, planes: Sequence[kinds.ComplexPlane]) -> str:
    """The numbers of all planes in groups, real and imaginary parts in turn, with what the axes and colours are."""
    across, up = plots.plane_scales(planes[0])
    names = list(dict.fromkeys(name for plane in planes for name, _ in plane.groups))
    groups = plots.null_first(zip(plots.colours(names, planes[0].muted), names, strict=True))

    def numbers(group: Iterable[complex]) -> list[float]:
        every = chain.from_iterable((z.real, z.imag) for z in group if plots.finite(z.real, z.imag))
        return [plots.rounded(one) for one in every]

    data = {
        "stops": [plane.title for plane in planes],
        "columns": [along, "group", "real part", "imaginary part"],
        "ends": [across.low, across.high, up.low, up.high],
        "groups": [(plots.shade(i), name) for i, name in groups],
        "planes": [[numbers(dict(plane.groups).get(name, ())) for _, name in groups] for plane in planes],
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def on_same_axes(charts: Sequence[PlainChart]) -> list[PlainChart]:
    """Charts of one kind whose axes show what all of them show."""
    found = [extent(chart) for chart in charts]
    xs, ys = ([value for one in found for value in one[side] if plots.finite(value)] for side in (0, 1))
    maps = on_one_scale([chart for chart in charts if isinstance(chart, kinds.HeatMap)])
    return [*maps] or [fitted(chart, xs, ys) for chart in charts]


def fitted(chart: PlainChart, xs: list[float], ys: list[float]) -> PlainChart:
    """The chart on axes with room for these figures."""
    match chart:
        case kinds.LineChart() | kinds.PointChart() | kinds.TrailChart():
            return replace(chart, x=wide(chart.x, xs), y=wide(chart.y, ys))
        case kinds.BarChart() | kinds.Forest():
            return replace(chart, x=wide(replace(chart.x, log=False), xs))
        case kinds.HeatMap():
            return chart  # its scale is one of colours
        case kinds.ComplexPlane():
            return replace(chart, shown=[complex(side(xs), side(ys)) for side in (min, max)] if xs else [])


def wide(axis: Axis, values: list[float]) -> Axis:
    """The axis with room for these values."""
    found = scale(axis, values)
    return axis if axis.shown else replace(axis, shown=(found.low, found.high))


def particles(chart: ParticleChart) -> str:
    """The last state of the first text as a picture, and the figures from which the page's script draws the others."""
    along, up = places(chart)
    clusters = [lasting(text.cluster) for text in chart.texts]
    where = [f"{name}, t = {t:g}" for name, t in chart.states]
    texts = [(str(i), text.name) for i, text in enumerate(chart.texts)]
    menus = menu("Speed", "speed", SPEEDS, "1") + menu("Colour", "by", COLOURS)
    menus += menu("Text", "text", texts) if len(texts) > 1 else ""
    text, last, now = chart.texts[0], len(where) - 1, clusters[0][-1]
    data = json.dumps(embedded(chart, where, clusters, along, up), ensure_ascii=False, separators=(",", ":"))
    strip = (
        f'<span class="token" style="{plots.colour(cluster)}">{escape(visible(token))}</span>'
        for token, cluster in zip(text.tokens, now, strict=True)
    )  # the text itself, underlined in the colours of its particles
    least, most = (f"{one:,.3g}" for one in norms(chart))
    keys = (
        f'<div class="key by-cluster">{CLUSTERS}</div>'
        f'<div class="key by-norm" hidden="hidden">norm {least}<i></i>{most}, logarithmic</div>'
    )  # what colours mean: clusters or, if the reader chooses so, norms
    return (
        f'<div class="particles"{plots.attribute("id", chart.name)}{plots.attribute("data-particles", data)}>'
        f"{titled(chart.title, where[last])}{controls('depth', last + 1, last, menus)}"
        f"{keys}{plots.framed(picture(chart, text, now, along, up))}"
        f'<p class="tokens" dir="auto">{"".join(strip)}</p></div>'
    )


def places(chart: ParticleChart) -> tuple[Scale, Scale]:
    """The axes: the same for all texts and states."""
    return (
        scale(chart.x, (x for text in chart.texts for row in text.x for x in row)),
        scale(chart.y, (y for text in chart.texts for row in text.y for y in row)),
    )


def norms(chart: ParticleChart) -> tuple[float, float]:
    """The least and the greatest norm that a logarithm has."""
    every = [one for text in chart.texts for row in text.norm for one in row if plots.finite(one) and one > 0] or [1.0]
    return min(every), max(every)


def picture(chart: ParticleChart, text: Particles, clusters: Sequence[int], along: Scale, up: Scale) -> plots.Plot:
    """Particles in the last state, with faint trails of where they were."""
    svg, dots = list[str](), list[str]()
    for i, cluster in enumerate(clusters):
        trail = [(along.at(x[i]), 1 - up.at(y[i])) for x, y in zip(text.x[-TRAIL:], text.y[-TRAIL:], strict=True)]
        svg.append(f'<path class="trail" style="{plots.colour(cluster)}" d="{plots.path(trail)}"/>')
        if plots.finite(*trail[-1]):
            x, y = (min(max(one, 0.0), 1.0) for one in trail[-1])
            dots.append(plots.dot(x, y, cluster, "dot particle" if (x, y) == trail[-1] else "dot particle beyond"))
    titles, note = (chart.x.title, chart.y.title), BEYOND if chart.x.shown or chart.y.shown else ""
    return plots.Plot("", "", plots.marks(along), plots.marks(up, True), titles, svg, dots, (), (), note=note)


def visible(token: str) -> str:
    """A token with marks for what has no shape."""
    return token.replace("\n", "\u23ce").replace("\r", "\u240d").replace("\t", "\u21e5") or "\u2205"


def embedded(
    chart: ParticleChart, where: Sequence[str], clusters: Sequence[list[list[int]]], along: Scale, up: Scale
) -> dict[str, Any]:
    """Figures for the script; x and y are between 0 and `PLACES` on the chart."""

    def placed(on: Scale, rows: Sequence[Sequence[float]]) -> list[list[int | None]]:
        return [[round(PLACES * on.at(one)) if math.isfinite(one) else None for one in row] for row in rows]

    heads = ("text", "state", "t", "position", "token", chart.x.title or "x", chart.y.title or "y", "cluster", "norm")
    return {
        "columns": heads,
        "states": [(name, plots.rounded(t)) for name, t in chart.states],
        "where": where,
        "ends": [plots.rounded(one, 6) for one in (along.low, along.high, up.low, up.high)],
        "norms": norms(chart),
        "places": PLACES,
        "trail": TRAIL,
        "texts": [
            {
                "name": text.name,
                "tokens": list(text.tokens),
                "x": placed(along, text.x),
                "y": placed(up, text.y),
                "cluster": numbers,
                "norm": [[plots.rounded(one, 3) if math.isfinite(one) else None for one in row] for row in text.norm],
            }
            for text, numbers in zip(chart.texts, clusters, strict=True)
        ],
    }


def lasting(states: Sequence[Sequence[int]]) -> list[list[int]]:
    """Clusters with numbers that last: one that keeps most of its tokens keeps its number, hence its colour."""
    found, before = list[list[int]](), [ALONE] * len(states[0])
    for row in states:
        before = renumbered(row, before)
        found.append(before)
    return found


def renumbered(row: Sequence[int], before: Sequence[int]) -> list[int]:
    """The clusters of a state under the numbers that most of their tokens had; new ones have numbers of their own."""
    members = defaultdict[int, list[int]](list)
    for token, cluster in enumerate(row):
        members[cluster].append(token)
    several = sorted((tokens for tokens in members.values() if len(tokens) > 1), key=len, reverse=True)
    chosen, taken = list[int | None](), set[int]()
    for tokens in several:
        had = Counter(before[token] for token in tokens if before[token] != ALONE)
        number = next((one for one, _ in had.most_common() if one not in taken), None)
        chosen.append(number)
        taken |= {number} - {None}
    free = (number for number in count() if number not in taken and number not in before)
    now = [ALONE] * len(row)
    for tokens, number in zip(several, chosen, strict=True):
        new = next(free) if number is None else number
        for token in tokens:
            now[token] = new
    return now
