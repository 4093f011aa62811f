"""A forest plot made of characters, for terminals and Markdown."""

from dataclasses import replace

from .charts import Bar, Forest, Scale, extent, scale
from .plots import finite, interval
from .tables import GAP, HEAD, NOT_ON_PAGES, Code, Column, Table

WIDEST, NARROWEST, ROOM = 33, 15, 76  # characters of a row: at most, at least, and together with its figures
BLANK, BAND, LINE, LEFT, RIGHT, MEAN, ZERO = "·░─├┤●│"


def forest_table(chart: Forest, name: str = "") -> Table:
    """Each row of the plot with its figures and its interval in characters, beside the page's own drawing."""
    bars = [one for one in chart.bars if finite(*one[1:])]
    along, form = scale(replace(chart.x, log=False), extent(replace(chart, bars=bars))[0]), chart.x.form
    ends = f"{form.format(along.low)} to {form.format(along.high)}"
    told = [(one.name, form.format(one.value), interval(one.low, one.high, form).strip()) for one in bars]
    beside = sum(max(least, *(len(row[k]) for row in told), 0) + GAP for k, least in enumerate((0, HEAD, 0)))
    wide = min(WIDEST, max(NARROWEST, ROOM - beside))
    columns = [Column("", text=True), Column(chart.x.title), Column("interval"), Column(ends, text=True, whole=True)]
    rows = [[*row, Code(in_characters(one, along, wide))] for row, one in zip(told, bars, strict=True)]
    return Table(columns, rows, chart.title, [chart.note] if chart.note else [], NOT_ON_PAGES, name)


def in_characters(bar: Bar, along: Scale, wide: int) -> str:
    """A row as text: the band, zero, the interval with its ends, and the value, each over what came before."""

    def at(value: float) -> int:
        return round(along.at(value) * (wide - 1))

    drawn = [BLANK] * wide
    if bar.band:
        drawn[at(-bar.band) : at(bar.band) + 1] = BAND * (at(bar.band) - at(-bar.band) + 1)
    drawn[at(0.0)] = ZERO
    if bar.low is not None and bar.high is not None:
        drawn[at(bar.low) : at(bar.high) + 1] = LINE * (at(bar.high) - at(bar.low) + 1)
        drawn[at(bar.low)], drawn[at(bar.high)] = LEFT, RIGHT
    drawn[at(bar.value)] = MEAN
    return "".join(drawn)
