"""A table as a value, and its three renderers: for a terminal, as HTML and as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERYWHERE, NOT_IN_MARKDOWN, ON_PAGES = 0, 1, 2  # levels of detail: where a column or a table is shown
HEAD = 14  # characters after which a head is wrapped on a terminal


class Code(str):
    """A line in a code font, such as a notation."""


Cell = str | tuple[str, ...]  # a text, or several lines, all but the first in small print


class Column(NamedTuple):
    """A column, and how it is shown if there is little room. A column without any text is left out."""

    head: Cell
    text: bool = False  # aligned left; numbers are aligned right
    whole: bool = False  # its lines are never broken on a terminal; numbers never are
    detail: int = EVERYWHERE
    below: bool = False  # shown below the column before it on a terminal
    grouped: bool = False  # repeated texts are shown once, except on pages, where rows may be cards


Record = Mapping[Column, Cell]  # a row that names the column of each cell


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads, with a title above them and notes below. The first column names the row."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    notes: Sequence[str] = ()
    detail: int = EVERYWHERE
    name: str = ""  # by which this table can be asked for
    stacked: bool = True  # each row is a card on a phone; else the table scrolls

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"The table {self.title!r} has {len(self.columns)} columns, but a row {tuple(row)!r}.")

    @staticmethod
    def of(records: Sequence[Record], title: str = "", notes: Sequence[str] = ()) -> Table:
        """A table from rows that name their columns."""
        return Table(list(records[0]), [list(record.values()) for record in records], title, notes)

    def fitted(self, detail: int) -> list[tuple[Column, list[Cell]]]:
        """The columns of at most this detail, each with its cells."""
        found, groups = [], [()] * len(self.rows)
        for i, column in enumerate(self.columns):
            cells = [row[i] for row in self.rows]
            if column.detail > detail or (cells and not any(cells)):
                continue
            if column.grouped and detail < ON_PAGES:
                groups = [(*group, cell) for group, cell in zip(groups, cells, strict=True)]
                cells = ["" if k and groups[k] == groups[k - 1] else cell for k, cell in enumerate(cells)]
            found.append((column, cells))
        return found


def lines(cell: Cell) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else cell


def in_one_line(parts: Iterable[str]) -> str:
    """Lines separated by commas, or by a blank before a bracket."""
    return "".join(f"{' ' if part[0] in '([' else ', '}{part}" for part in parts if part).lstrip(", ")


def to_terminal(tables: Iterable[Table]) -> RenderableType:
    """Tables one below the other, without those that are only for pages."""
    from rich.console import Group
    from rich.text import Text

    parts = list[Any]()
    for table in tables:
        if table.detail < ON_PAGES:
            title = [Text(f"\n{table.title}\n")] if table.title else []
            parts += [*title, _grid(table.fitted(NOT_IN_MARKDOWN)), *(Text(f"\n{note}") for note in table.notes)]
    return Group(*parts)


def _grid(columns: Iterable[tuple[Column, list[Cell]]]) -> RenderableType:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid, texts = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)), list[list[str]]()
    for column, cells in columns:
        head = "\n".join(textwrap.fill(line, HEAD) for line in lines(column.head))
        own = ["\n".join(lines(cell) if column.whole else map(_breakable, lines(cell))) for cell in cells]
        if column.below and texts:
            grid.columns[-1].header = f"{grid.columns[-1].header}\n{head}"
            texts[-1] = [f"{above}\n{text}" for above, text in zip(texts[-1], own, strict=True)]
        elif column.text:
            grid.add_column(head, min_width=0 if column.whole else 8, overflow="fold", no_wrap=column.whole)
            texts.append(own)
        else:
            grid.add_column(head, justify="right", no_wrap=True)
            texts.append(own)
    for row in zip(*texts, strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _breakable(line: str) -> str:
    """The line with long words broken once, such as strang-midpoint and model.embedding_scale=16."""
    broken = re.sub(r"\S{15,}", lambda word: re.sub(r"(\S{4,}?[-.])(?=\S)", r"\1\n", word[0], count=1), line)
    return line if isinstance(line, Code) else broken


def to_html(table: Table) -> str:
    """A table with its title and its notes."""
    columns = table.fitted(ON_PAGES)
    heads = "".join(f'<th scope="col"{_aligned(column)}>{_cell(column.head)}</th>' for column, _ in columns)
    body = "".join(
        f"<tr>{''.join(_named(column, cell, first=not i) for i, (column, cell) in enumerate(row))}</tr>"
        for row in zip(*([(column, cell) for cell in cells] for column, cells in columns), strict=True)
    )
    title = f"<h2>{escape(table.title)}</h2>\n" if table.title else ""
    notes = "".join(f'\n<p class="soft">{escape(note)}</p>' for note in table.notes)
    shown = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'{title}<div class="scroll{" stack" * table.stacked}">{shown}</div>{notes}'


def _named(column: Column, cell: Cell, first: bool) -> str:
    """A cell with the head of its column, which cards show on a phone; the first cell names the row."""
    if first:
        return f'<th scope="row">{_cell(cell)}</th>'
    head = escape(in_one_line(lines(column.head)))
    return f'<td{_aligned(column)} data-head="{head}"><span>{_cell(cell)}</span></td>' if cell else "<td></td>"


def _aligned(column: Column) -> str:
    return ' class="text"' if column.text else ""


def _cell(cell: Cell) -> str:
    first, *rest = [f"<code>{escape(line)}</code>" if isinstance(line, Code) else escape(line) for line in lines(cell)]
    return first + "".join(f"<small>{line}</small>" for line in rest)


def to_markdown(table: Table) -> str:
    """The table without title and notes, which belong in the text around it."""
    columns = table.fitted(EVERYWHERE)
    rows = [[column.head for column, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    written = [[in_one_line(map(_marked, lines(cell))) for cell in row] for row in rows]
    written.insert(1, ["---"] * len(columns))
    return "".join(f"| {' | '.join(row)} |\n" for row in written)


def _marked(line: str) -> str:
    """A line escaped for a cell, so none of it is markup: no HTML, no link, no end of the cell."""
    flat = " ".join(line.split())
    if isinstance(line, Code) and flat and not set("`\\") & set(flat):
        code = flat.replace("|", "\\|")
        return f"`{code}`"
    return re.sub(r"[\\`|]|(?<=\])\(", r"\\\g<0>", escape(flat, quote=False))
