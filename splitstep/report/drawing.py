"""Documents drawn: as a page, on a terminal, as Markdown and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from .charts import Chart, Explained, ParticleChart, SliderChart, SmallMultiples
from .diagram import diagrams
from .document import Beside, Diagrams, Document, Heading, Note, Pairs, Part, Stacked, Verbatim, Verdict, of_kind
from .explained import explained
from .page import page, pairs, side_by_side, words_to_html
from .particles import particles
from .plots import framed, headed, legend, plotted
from .slider import slider
from .tables import EVERYWHERE, NOT_ON_PAGES, Table, markdown_text, to_html, to_markdown, to_terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

HEIGHT = 640  # of a page in a notebook, which scrolls


def document_to_page(document: Document) -> str:
    """The whole page: title, verdict, parts."""
    own = document.verdict is not None and not any(of_kind(Verdict, document.parts))
    begin = [part_to_html(document.verdict)] if own and document.verdict else []
    shown = (part for part in document.parts if not (isinstance(part, Table) and part.detail == NOT_ON_PAGES))
    return page(document.title, [f"<h1>{escape(document.title)}</h1>", *begin, *map(part_to_html, shown)])


def document_to_terminal(document: Document) -> RenderableType:
    """The verdict, then the tables."""
    from rich.console import Group
    from rich.text import Text

    begin = [Text(f"{document.verdict.sentence}\n", style="bold")] if document.verdict else []
    return Group(*begin, to_terminal(document.tables))


def document_to_notebook(document: Document) -> str:
    """The page in a frame of its own, so that its style and its script touch nothing else."""
    page = escape(document_to_page(document))
    return f'<iframe srcdoc="{page}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'


def documents_to_markdown(named: Sequence[tuple[str, Document]], tables: Sequence[Table]) -> str:
    """The verdicts of documents under their names, then tables: those of all documents, or common ones."""
    said = [(name, one.verdict) for name, one in named if one.verdict]
    parts = [verdicts_to_markdown(said)] if said else []
    return "\n".join([*parts, *(to_markdown(one) for one in tables if one.detail <= EVERYWHERE)])


def verdicts_to_markdown(verdicts: Sequence[tuple[str, Verdict]]) -> str:
    """One sentence, or a list of them under the names of their results."""
    if len(verdicts) == 1:
        return f"{markdown_text(verdicts[0][1].sentence)}\n"
    return "".join(f"- {markdown_text(name)}: {markdown_text(one.sentence)}\n" for name, one in verdicts)


def part_to_html(part: Part | Stacked) -> str:
    """A part of a page."""
    match part:
        case Beside():
            return side_by_side([part_to_html(one) for one in part.parts])
        case Stacked():
            return "".join(map(part_to_html, part.parts))
        case Table():
            return to_html(part)
        case Diagrams():
            return diagrams(part.schemes)
        case Pairs():
            return pairs(part.rows)
        case Verdict() | Heading() | Note() | Verbatim():
            return words_to_html(part)
        case _:
            return chart_to_html(part)


def chart_to_html(chart: Chart) -> str:
    """A chart with its title."""
    match chart:
        case Explained():
            return explained(chart, chart_to_html(chart.chart))
        case SmallMultiples():
            return multiples(chart)
        case SliderChart():
            return slider(chart)
        case ParticleChart():
            return particles(chart)
        case _:
            return framed(plotted(chart))


def multiples(chart: SmallMultiples) -> str:
    """Small charts beside each other, with a common legend if they agree."""
    plots, common = [plotted(one) for one in chart.charts], ()
    if len({tuple(plot.legend) for plot in plots}) == 1:
        common, plots = plots[0].legend, [replace(plot, legend=()) for plot in plots]
    small = "".join(framed(plot, "h3") for plot in plots)
    return f'{headed(chart.title, "h2")}{legend(common)}<div class="multiples">{small}</div>'
