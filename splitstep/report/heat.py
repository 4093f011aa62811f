"""Heat maps as plots: a path for the cells of each shade, and a bar that says what the colours mean."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape

from . import charts as kinds
from .charts import extent
from .plots import Plot, Tip, number, plotted

SHADES = 20


@plotted.register
def _heat(chart: kinds.HeatMap) -> Plot:
    """A path for the cells of each shade, so large maps stay small files."""
    most = chart.strongest or max(filter(math.isfinite, extent(chart)[0]), default=0.0) or 1.0
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
        chart.title, chart.name, across, down, (chart.x, chart.y), svg, [], tips, (), key=bar(chart, most, cells)
    )


def bar(chart: kinds.HeatMap, most: float, cells: Iterable[tuple[bool, int]]) -> str:
    """What the colours mean: a bar from zero or, if there are figures of both signs, from one extreme to the other."""
    both = any(minus for minus, _ in cells)
    ends = [chart.form.format(-most if both else 0.0), chart.form.format(most)]
    kind = "both" if both else "plus"
    return f'<div class="key {kind}">{escape(chart.what)} {escape(ends[0])}<i></i>{escape(ends[1])}</div>'


def thinned(names: Sequence[str], most: int = 8) -> list[tuple[float, str]]:
    """Marks in the middle of rows or columns, at most so many of them."""
    every = -(-len(names) // most) or 1
    return [((i + 0.5) / len(names), name) for i, name in enumerate(names) if i % every == 0]
