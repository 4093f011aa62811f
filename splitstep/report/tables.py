"""A table as a value, and its three renderers: for a terminal, as HTML and as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

NOT_ON_PAGES, EVERYWHERE, NOT_IN_MARKDOWN, ON_PAGES = -1, 0, 1, 2  # levels of detail: where columns and tables are
FOLDED = 12  # characters after which a long word may be broken on a terminal
GAP = 2  # characters between columns on a terminal
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
    grouped: bool = False  # repeated texts are shown once, except where rows may be cards or blocks


Record = Mapping[Column, Cell]  # a row that names the column of each cell
Columns = Sequence[tuple[Column, list[Cell]]]


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
    def of(
        records: Sequence[Record], title: str = "", notes: Sequence[str] = (), detail: int = EVERYWHERE, name: str = ""
    ) -> Table:
        """A table from rows that name their columns; without rows it has none."""
        columns = list(records[0]) if records else []
        return Table(columns, [list(record.values()) for record in records], title, notes, detail, name)

    def fitted(self, detail: int) -> Columns:
        """The columns of at most this detail that have any text, each with its cells."""
        found = ((column, [row[i] for row in self.rows]) for i, column in enumerate(self.columns))
        return [(column, cells) for column, cells in found if column.detail <= detail and (any(cells) or not cells)]

    def records(self) -> list[dict[str, str]]:
        """The rows as texts by the heads of their columns."""
        heads = [in_one_line(lines(column.head)) for column in self.columns]
        return [dict(zip(heads, (in_one_line(lines(cell)) for cell in row), strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Pairs:
    """Names and values."""

    rows: Sequence[tuple[str, str]]
    detail: int = ON_PAGES


def grouped(columns: Columns) -> Columns:
    """The columns with each repeated text of a group shown once."""
    found, groups = list[tuple[Column, list[Cell]]](), dict[int, tuple[Cell, ...]]()
    for column, cells in columns:
        if column.grouped:
            groups = {k: (*groups.get(k, ()), cell) for k, cell in enumerate(cells)}
            cells = ["" if k and groups[k] == groups[k - 1] else cell for k, cell in enumerate(cells)]
        found.append((column, cells))
    return found


def lines(cell: Cell) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else cell


def in_one_line(parts: Iterable[str]) -> str:
    """Lines separated by commas, or by a blank before a bracket."""
    return "".join(f"{' ' if part[0] in '([' else ', '}{part}" for part in parts if part).lstrip(", ")


def to_terminal(parts: Iterable[Table | Pairs]) -> RenderableType:
    """Tables and pairs one below the other, without those that are only for pages."""
    from rich.console import Group
    from rich.text import Text

    shown = list[Any]()
    for part in parts:
        if part.detail == ON_PAGES:
            continue
        if isinstance(part, Pairs):
            shown.append(_pairs(part))
        else:
            title = [Text(f"\n{part.title}\n")] if part.title else []
            shown += [*title, Fitted(part), *(Text(f"\n{note}") for note in part.notes)]
    return Group(*shown)


def _pairs(pairs: Pairs) -> RenderableType:
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")  # nothing is cut on a narrow terminal
    for row in pairs.rows:
        grid.add_row(*map(Text, row))
    return grid


class Fitted(NamedTuple):
    """A table on a terminal: a grid if all of it fits, else a block for each row; nothing is ever cut off."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        columns = _stacked(grouped(self.table.fitted(NOT_IN_MARKDOWN)))
        if sum(one.narrowest for one in columns) + GAP * (len(columns) - 1) <= options.max_width:
            yield _grid(columns)
        else:
            yield from _blocks(self.table.fitted(NOT_IN_MARKDOWN))


class Stacked(NamedTuple):
    """A column of a grid: its head and its cells, each with those of the columns that are shown below it."""

    column: Column
    head: str
    cells: list[str]

    @property
    def narrowest(self) -> int:
        """The least width that shows all of it: numbers stay whole, and text is broken between words if it can be."""
        from rich.cells import cell_len

        lines = [line for text in (self.head, *self.cells) for line in text.split("\n")]
        if self.column.text and not self.column.whole:
            lines = [word[:FOLDED] for line in lines for word in line.split()]
        return max(map(cell_len, lines), default=0)


def _stacked(columns: Columns) -> list[Stacked]:
    found = list[Stacked]()
    for column, cells in columns:
        head = "\n".join(textwrap.fill(line, HEAD) for line in lines(column.head))
        own = ["\n".join(lines(cell) if column.whole else map(_breakable, lines(cell))) for cell in cells]
        if column.below and found:
            above = found.pop()
            head = f"{above.head}\n{head}"
            own = [f"{one}\n{text}" for one, text in zip(above.cells, own, strict=True)]
            column = above.column
        found.append(Stacked(column, head, own))
    return found


def _grid(columns: Sequence[Stacked]) -> RenderableType:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for one in columns:
        if one.column.text:
            grid.add_column(Text(one.head), min_width=one.narrowest, overflow="fold", no_wrap=one.column.whole)
        else:
            grid.add_column(Text(one.head), justify="right", no_wrap=True)
    for row in zip(*(one.cells for one in columns), strict=True):
        grid.add_row(*map(Text, row))
    return grid


def _blocks(columns: Columns) -> Iterable[RenderableType]:
    """What names the rows, then a block for each: its name, and a line for each of its other cells."""
    from rich.padding import Padding
    from rich.text import Text

    names, *others = columns
    head = in_one_line(lines(names[0].head))
    yield Text(f"{head}\n{'─' * len(head)}", overflow="fold")
    for i, name in enumerate(names[1]):
        yield Text(in_one_line(lines(name)), overflow="fold")
        for column, cells in others:
            text = f"{in_one_line(lines(column.head))}: {in_one_line(lines(cells[i]))}"
            if in_one_line(lines(cells[i])):
                yield Padding(Text(text, overflow="fold"), (0, 0, 0, 2), expand=False)
        yield Text("")


def _breakable(line: str) -> str:
    """The line with long words broken once, such as strang-midpoint and model.embedding_scale=16."""
    broken = re.sub(r"\S{15,}", lambda word: re.sub(r"(\S{4,}?[-.])(?=\S)", r"\1\n", word[0], count=1), line)
    return line if isinstance(line, Code) else broken


def to_html(table: Table | Pairs) -> str:
    """A table with its title and its notes, or a list of names and values."""
    if isinstance(table, Pairs):
        rows = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in table.rows)
        return f"<dl>{''.join(rows)}</dl>"
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
    columns = grouped(table.fitted(EVERYWHERE))
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
    return markdown_text(flat)


def markdown_text(line: str) -> str:
    """A line of which nothing is markup."""
    return re.sub(r"[\\`|]|(?<=\])\(", r"\\\g<0>", escape(" ".join(line.split()), quote=False))
