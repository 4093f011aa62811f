"""Heat maps as plots: a path for the cells of each shade, and a bar that says what the colours mean."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from . import charts as kinds
from .charts import extent
from .plots import Plot, Tip, number, plotted

SHADES = 20


@plotted.register
def _heat(chart: kinds.HeatMap) -> Plot:
    """A path for the cells of each shade, so large maps stay small files."""
    least, most = ends(chart)
    wide, high = 1 / max(len(chart.columns), 1), 1 / max(len(chart.rows), 1)
    cells, tips = defaultdict[tuple[bool, int], list[str]](list), list[Tip]()
    for r, (row, values) in enumerate(zip(chart.rows, chart.values, strict=True)):
        for c, (column, value) in enumerate(zip(chart.columns, values, strict=True)):
            if math.isfinite(value):
                box = f"M{number(c * wide)} {number(r * high)}h{number(wide)}v{number(high)}h-{number(wide)}Z"
                cells[value < 0, round(SHADES * min(abs(value) / most, 1.0))].append(box)
            head = f"{chart.y} {row}, {chart.x} {column}"
            tips.append(Tip((c + 0.5) * wide, (r + 0.5) * high, head, [(0, chart.form.format(value))]))
    svg = [
        f'<path class="cell {"minus" if minus else "plus"}" fill-opacity="{shade / SHADES:g}" d="{"".join(boxes)}"/>'
        for (minus, shade), boxes in sorted(cells.items())
    ]
    across, down = thinned(chart.columns), thinned(chart.rows)
    return Plot(
        chart.title, chart.name, across, down, (chart.x, chart.y), svg, [], tips, (), key=bar(chart, least, most)
    )


def ends(chart: kinds.HeatMap) -> tuple[float, float]:
    """The figures of the colours' ends: from zero or, if figures of both signs have a colour, from minus the
    strongest."""
    found = list(filter(math.isfinite, extent(chart)[0]))
    most = chart.strongest or max(map(abs, found), default=0.0) or 1.0
    signed = min(found, default=0.0) < -most / (2 * SHADES) if chart.signed is None else chart.signed
    return -most if signed else 0.0, most


def on_one_scale(maps: Sequence[kinds.HeatMap]) -> list[kinds.HeatMap]:
    """Heat maps in which a figure has the same colour, and whose bars have the same ends."""
    if not maps:
        return []
    least, most = ends(replace(maps[0], values=[row for one in maps for row in one.values]))
    return [replace(one, strongest=most, signed=least < 0) for one in maps]


def bar(chart: kinds.HeatMap, least: float, most: float) -> str:
    """What the colours mean."""
    low, high = (escape(chart.form.format(one)) for one in (least, most))
    return f'<div class="key {"both" if least else "plus"}">{escape(chart.what)} {low}<i></i>{high}</div>'


def thinned(names: Sequence[str], most: int = 8) -> list[tuple[float, str]]:
    """Marks in the middle of rows or columns, at most so many of them."""
    every = -(-len(names) // most) or 1
    return [((i + 0.5) / len(names), name) for i, name in enumerate(names) if i % every == 0]
