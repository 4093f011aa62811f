"""Documents drawn: as a page, on a terminal, as Markdown and in a notebook; the frame of a page, and equations.

A page is one HTML file with its style and its script inside, which loads nothing.
"""

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from . import charts as kinds
from .charts import Chart, PlainChart
from .diagram import diagrams
from .document import Beside, Diagrams, Document, Evidence, Heading, Note, Part, Stacked, Verbatim, Verdict, flat
from .moving import particles, slider
from .plots import attribute, framed, headed, legend, plotted, rounded
from .tables import EVERYWHERE, NOT_ON_PAGES, Pairs, Table, markdown_text, to_html, to_markdown, to_terminal

HEIGHT = 640  # of a page in a notebook, which scrolls
STYLE, SCRIPT = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("style.css", "hover.js"))
LEVELS = {"_": "sub", "^": "sup"}
PIECE = re.compile(r"([_^])(?:\{|(.))|(\})|([A-Za-z]+)|([^_^}A-Za-z]+)", re.DOTALL)
OPTION = re.compile(r"(?<!\S)--?[a-z][\w.-]*")
TITLED = Table | kinds.LineChart | kinds.PointChart | kinds.SmallMultiples
Value = str | float | None


def page(title: str, body: Iterable[str]) -> str:
    """A whole page. `title` is text; the body is HTML, escaped already."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>",
            "</head>\n<body>\n<main>",
            *body,
            f"</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def document_to_page(document: Document) -> str:
    """The whole page: title, headline, the first picture, the verdict with its figures, the other parts."""
    parts, verdict = list(map(part_to_html, document.parts)), document.verdict
    first = next((i for i, part in enumerate(document.parts, 1) if isinstance(part, Chart | Beside)), 0)
    begin = [f"<h1>{escape(document.title)}</h1>"]
    told = any(isinstance(part, Verdict) for part in document.parts)
    if verdict and (said := document.headline or ("" if told else verdict.sentence)):
        begin.append(f'<p class="verdict headline {dashed(verdict.kind)}">{in_prose(said)}</p>')
        if said != verdict.sentence and not told:
            parts.insert(first, part_to_html(Note(verdict.sentence, plain=True)))
    return page(document.title, [*begin, *filter(None, parts)])


def document_to_terminal(document: Document) -> str:
    """The verdict, then the tables, as wide as the terminal. NO_COLOR counts for more than FORCE_COLOR."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, force_terminal=sys.stdout.isatty() if os.environ.get("NO_COLOR") else None)
    with console.capture() as captured:  # else rich ends the process on a closed pipe
        if document.verdict:
            console.print(Text(f"{document.verdict.sentence}\n", style="bold"))
        console.print(to_terminal([part for part in flat(document.parts) if isinstance(part, Table | Pairs)]))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def document_to_notebook(document: Document) -> str:
    """The page in a frame of its own, so that its style and its script touch nothing else."""
    page = escape(document_to_page(document))
    return f'<iframe srcdoc="{page}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'


def chart_to_notebook(chart: Chart) -> str:
    """A chart alone, on a page of its own."""
    return document_to_notebook(Document(chart.title, [chart]))


def documents_to_markdown(named: Sequence[tuple[str, Document]], tables: Sequence[Table]) -> str:
    """The verdicts of documents under their names, then tables: those of all documents, or common ones."""
    said = [(name, one.verdict) for name, one in named if one.verdict]
    if len(said) == 1:
        parts = [f"{markdown_text(said[0][1].sentence)}\n"]
    else:
        parts = ["".join(f"- {markdown_text(name)}: {markdown_text(one.sentence)}\n" for name, one in said)]
    shown = [to_markdown(one) for one in tables if one.detail <= EVERYWHERE]
    return "\n".join([*filter(None, parts), *shown])


def part_to_html(part: Part | Stacked) -> str:
    """A part of a page."""
    match part:
        case Beside((one,)):
            return part_to_html(one)
        case Beside(parts):
            return f'<div class="pair">{"".join(f"<div>{part_to_html(one)}</div>" for one in parts)}</div>'
        case Stacked(parts):
            return "".join(map(part_to_html, parts))
        case Evidence(title, parts):
            return folded_to_html(title, parts)
        case Table() | Pairs():
            return "" if part.detail == NOT_ON_PAGES else to_html(part)
        case Diagrams(schemes):
            return diagrams(schemes)
        case Verdict() | Heading() | Note() | Verbatim():
            return text_to_html(part)
        case _:
            return chart_to_html(part)


def folded_to_html(title: str, parts: Sequence[Part]) -> str:
    """Evidence under its title, opened by a click; nothing if none of it is for pages."""
    inside = "".join(part_to_html(untitled(one, title)) for one in parts)
    head = f'<details id="{anchor(title)}"><summary><h2>{escape(title)}</h2></summary>'
    return inside and f"{head}{inside}</details>"


def text_to_html(part: Verdict | Heading | Note | Verbatim) -> str:
    """A part that is text."""
    match part:
        case Verdict(kind, sentence, evidence):
            link = f' <a href="#{anchor(evidence)}">{escape(evidence)}</a>' if evidence else ""
            return f'<p class="verdict {dashed(kind)}">{in_prose(sentence)}{link}</p>'
        case Heading(text, level, name):
            return f"<h{level}{attribute('id', anchor(name))}>{escape(text)}</h{level}>"
        case Note(text, plain):
            return f"<p>{in_prose(text)}</p>" if plain else f'<p class="soft">{in_prose(text)}</p>'
        case Verbatim(text, answer):
            kind = ' class="answer" tabindex="0"' if answer else ""
            return f"<pre{kind}>{escape(text) if answer else in_prose(text)}</pre>"


def untitled(part: Part, title: str) -> Part:
    """A table or a chart without its title, if that stands above it already."""
    return replace(part, title="") if isinstance(part, TITLED) and part.title == title else part


def in_prose(text: str) -> str:
    """Text whose options, such as --seeds, stay in one piece."""
    return OPTION.sub(r'<span class="whole">\g<0></span>', escape(text))


def dashed(kind: str) -> str:
    """A kind as a class of the style."""
    return kind.replace(" ", "-")


def anchor(name: str) -> str:
    """A name as the place of a link."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def chart_to_html(chart: Chart) -> str:
    """A chart with its title."""
    match chart:
        case kinds.Explained():
            return explained(chart)
        case kinds.SmallMultiples():
            return multiples(chart)
        case kinds.SliderChart():
            return slider(chart)
        case kinds.ParticleChart():
            return particles(chart)
        case _:
            return framed(plotted(chart))


def multiples(chart: kinds.SmallMultiples) -> str:
    """Small charts beside each other, with a common legend if they agree."""
    plots, common = [plotted(one) for one in chart.charts], ()
    if len({tuple(plot.legend) for plot in plots}) == 1:
        common, plots = plots[0].legend, [replace(plot, legend=()) for plot in plots]
    small = "".join(framed(plot, "h3") for plot in plots)
    return f'{headed(chart.title, "h2")}{legend(common)}<div class="multiples">{small}</div>'


def explained(chart: kinds.Explained) -> str:
    """A chart with its equation, how to read it, and a button that saves its figures as a table."""
    inside, equation, reading, button = chart.chart, "", "", ""
    one = inside.charts[0] if isinstance(inside, kinds.SliderChart) else inside
    equal = isinstance(one, kinds.ComplexPlane)  # about as wide as high, so that there is room beside it
    if chart.equation:
        equation = f'<p class="equation">{equation_to_html(chart.equation)}</p>'
    if chart.reading:
        reading = f'<p class="reading">{escape(chart.reading)}</p>'
    if chart.file:
        button = (
            f'<button type="button" class="download" data-file="{escape(chart.file)}" hidden="hidden">'
            f"Download the figures<small>{escape(chart.file)}</small></button>"
        )
    found = ""  # the script finds those of particles and of planes with a slider in the chart
    if chart.file and not isinstance(inside, kinds.ParticleChart) and (one is inside or not equal):
        found = json.dumps(figures(inside)._asdict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        f'<div class="explained{" beside" * equal}"{attribute("data-figures", found)}>{chart_to_html(inside)}'
        f'<div class="about">{equation}{reading}{button}</div></div>'
    )


class Figures(NamedTuple):
    """Named columns, and rows of texts and numbers with six significant digits; what is missing or not finite is
    None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]


def figures(chart: PlainChart | kinds.SmallMultiples | kinds.SliderChart) -> Figures:
    """What a chart shows, as a table; of several charts under each other, with the chart's title first."""
    if isinstance(chart, kinds.SmallMultiples | kinds.SliderChart):
        tables = [figures(one) for one in chart.charts]
        rows = [[one.title, *row] for one, table in zip(chart.charts, tables, strict=True) for row in table.rows]
        head = chart.along if isinstance(chart, kinds.SliderChart) else "chart"
        return Figures([head, *(tables[0].columns if tables else ())], rows)
    columns, rows = named_figures(chart)
    return Figures(columns, [[plain(value) for value in row] for row in rows])


def named_figures(chart: PlainChart) -> tuple[Sequence[str], Iterable[Sequence[Value]]]:
    """The columns of one chart's figures, and its rows."""
    match chart:
        case kinds.LineChart(_, x, y, lines):
            rows = [(one.name, *row) for one in lines for row in zip_longest(one.x, one.y, one.low, one.high)]
            return ("name", x.title or "x", y.title or "y", "low", "high"), rows
        case kinds.PointChart(_, x, y, points):
            return ("name", x.title or "x", y.title or "y", "low", "high", "remark"), points
        case kinds.TrailChart(_, x, y, colour, trails):
            rows = [(one.value, *row) for one in trails for row in zip(one.names, one.x, one.y, strict=True)]
            return (colour.title or "value", "name", x.title or "x", y.title or "y"), rows
        case kinds.BarChart(_, x, bars):
            return ("name", x.title or "value", "low", "high"), (bar[:4] for bar in bars)
        case kinds.Forest(_, x, bars):
            return ("name", x.title or "value", "low", "high", "band"), bars
        case kinds.HeatMap(_, x, y, columns, names, values):
            own = [
                (row, *one) for row, line in zip(names, values, strict=True) for one in zip(columns, line, strict=True)
            ]
            return (y, x, "value"), own
        case kinds.ComplexPlane(_, groups):
            parts = [(name, z.real, z.imag) for name, own in groups for z in own]
            return ("group", "real part", "imaginary part"), parts


def plain(value: Value) -> Value:
    """As JSON has it."""
    if value is None or isinstance(value, str):
        return value
    return rounded(value, 6) if math.isfinite(value) else None


def equation_to_html(text: str) -> str:
    """An equation whose single letters are variables; `_` lowers and `^` raises a letter or what is in braces."""
    written, closing = list[str](), list[str]()
    for level, letter, close, word, other in PIECE.findall(text):
        if level and letter:
            written.append(f"<{LEVELS[level]}>{symbol(letter)}</{LEVELS[level]}>")
        elif level:
            written.append(f"<{LEVELS[level]}>")
            closing.append(f"</{LEVELS[level]}>")
        elif close and closing:
            written.append(closing.pop())
        else:
            written.append(symbol(close or word or other))
    return "".join([*written, *reversed(closing)])


def symbol(text: str) -> str:
    """A variable if it is one letter; else a word, a number or a sign, with a minus as printers have it."""
    return f"<var>{text}</var>" if re.fullmatch("[A-Za-z]", text) else escape(text.replace("-", "\u2212"))
