"""Tokens as particles: a picture of the last state, and the figures from which the page's script draws the others."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from itertools import count
from typing import Any

from .charts import ParticleChart, Particles
from .plots import Plot, attribute, colour, dot, finite, framed, marks, path, rounded
from .scales import Scale, scale
from .slider import SPEEDS, controls, menu, titled

PLACES = 999  # along each axis: places are whole numbers, so that pages stay small
TRAIL = 10  # states that a trail goes back
ALONE = -1  # the cluster of a token that has one to itself
COLUMNS = ("text", "state", "t", "position", "token")
BEYOND = "Hollow particles at the edge are beyond it."
CLUSTERS = "Tokens of one cluster have one colour; tokens alone are grey."


def particles(chart: ParticleChart) -> str:
    """The last state of the first text, and all that is needed to show the others."""
    along, up = places(chart)
    clusters = [lasting(text.cluster) for text in chart.texts]
    data = json.dumps(embedded(chart, clusters, along, up), ensure_ascii=False, separators=(",", ":"))
    last, text = len(chart.states) - 1, chart.texts[0]
    return (
        f'<div class="particles"{attribute("id", chart.name)}{attribute("data-particles", data)}>'
        f"{titled(chart.title, where(*chart.states[last]))}{controls('depth', last + 1, last, menus(chart))}"
        f"{keys(chart)}{framed(picture(chart, text, clusters[0][last], along, up))}"
        f'<p class="tokens" dir="auto">{"".join(strip(text.tokens, clusters[0][last]))}</p></div>'
    )


def places(chart: ParticleChart) -> tuple[Scale, Scale]:
    """The axes: the same for all texts and states."""
    return (
        scale(chart.x, (x for text in chart.texts for row in text.x for x in row)),
        scale(chart.y, (y for text in chart.texts for row in text.y for y in row)),
    )


def where(name: str, t: float) -> str:
    return f"{name}, t = {t:g}"


def menus(chart: ParticleChart) -> str:
    texts = [(str(i), text.name) for i, text in enumerate(chart.texts)]
    colours = (("cluster", "cluster"), ("norm", "norm"))
    choice = menu("Text", "text", texts) if len(texts) > 1 else ""
    return f"{menu('Speed', 'speed', SPEEDS, '1')}{menu('Colour', 'by', colours)}{choice}"


def keys(chart: ParticleChart) -> str:
    """What colours mean: clusters or, if the reader chooses so, norms."""
    least, most = (f"{one:,.3g}" for one in norms(chart))
    return (
        f'<div class="key by-cluster">{CLUSTERS}</div>'
        f'<div class="key by-norm" hidden="hidden">norm {least}<i></i>{most}, logarithmic</div>'
    )


def norms(chart: ParticleChart) -> tuple[float, float]:
    """The least and the greatest norm that a logarithm has."""
    every = [one for text in chart.texts for row in text.norm for one in row if finite(one) and one > 0] or [1.0]
    return min(every), max(every)


def picture(chart: ParticleChart, text: Particles, clusters: Sequence[int], along: Scale, up: Scale) -> Plot:
    """Particles in the last state, with faint trails of where they were."""
    svg, dots = list[str](), list[str]()
    for i, cluster in enumerate(clusters):
        trail = [(along.at(x[i]), 1 - up.at(y[i])) for x, y in zip(text.x[-TRAIL:], text.y[-TRAIL:], strict=True)]
        svg.append(f'<path class="trail" style="{colour(cluster)}" d="{path(trail)}"/>')
        if finite(*trail[-1]):
            x, y = (min(max(one, 0.0), 1.0) for one in trail[-1])
            dots.append(dot(x, y, cluster, "dot particle" if (x, y) == trail[-1] else "dot particle beyond"))
    titles, note = (chart.x.title, chart.y.title), BEYOND if chart.x.shown or chart.y.shown else ""
    return Plot("", "", marks(along), marks(up, True), titles, svg, dots, (), (), note=note)


def strip(tokens: Sequence[str], clusters: Sequence[int]) -> Iterable[str]:
    """The text itself, underlined in the colours of its particles."""
    for token, cluster in zip(tokens, clusters, strict=True):
        yield f'<span class="token" style="{colour(cluster)}">{escape(visible(token))}</span>'


def visible(token: str) -> str:
    """A token with marks for what has no shape."""
    return token.replace("\n", "\u23ce").replace("\r", "\u240d").replace("\t", "\u21e5") or "\u2205"


def embedded(chart: ParticleChart, clusters: Sequence[list[list[int]]], along: Scale, up: Scale) -> dict[str, Any]:
    """Figures for the script; x and y are between 0 and `PLACES` on the chart."""
    return {
        "columns": [*COLUMNS, chart.x.title or "x", chart.y.title or "y", "cluster", "norm"],
        "states": [(name, rounded(t)) for name, t in chart.states],
        "where": [where(*state) for state in chart.states],
        "ends": [rounded(one, 6) for one in (along.low, along.high, up.low, up.high)],
        "norms": norms(chart),
        "places": PLACES,
        "trail": TRAIL,
        "texts": [
            {
                "name": text.name,
                "tokens": list(text.tokens),
                "x": [[placed(along, value) for value in row] for row in text.x],
                "y": [[placed(up, value) for value in row] for row in text.y],
                "cluster": numbers,
                "norm": [[rounded(one, 3) if math.isfinite(one) else None for one in row] for row in text.norm],
            }
            for text, numbers in zip(chart.texts, clusters, strict=True)
        ],
    }


def placed(on: Scale, value: float) -> int | None:
    return round(PLACES * on.at(value)) if math.isfinite(value) else None


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
