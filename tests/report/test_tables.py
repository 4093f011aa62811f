"""A table is one value: its three renderers show the same cells, and leave out what the columns say."""

import re
from collections import Counter

import pytest
from made_up import comparison, translation, trial
from markdown_it import MarkdownIt
from rich.console import Console

from splitstep.report.document import Document
from splitstep.report.drawing import document_to_terminal
from splitstep.report.tables import (
    NOT_IN_MARKDOWN,
    ON_PAGES,
    Code,
    Column,
    Table,
    grouped,
    lines,
    to_html,
    to_markdown,
    to_terminal,
)
from splitstep.studies.compare.tables import comparison_tables, tables_together
from splitstep.studies.orders import orders, orders_tables
from splitstep.studies.slopes import with_slopes

TABLE = Table(
    [
        Column("task", text=True, grouped=True),
        Column("scheme", text=True),
        Column(("test", "[95%]")),
        Column("empty"),
        Column("seconds", detail=NOT_IN_MARKDOWN),
        Column("rate", detail=NOT_IN_MARKDOWN, below=True),
        Column("seeds", detail=ON_PAGES),
    ],
    [
        ["digits", ("lie", Code("A F"), "train.lr=1"), ("0.91", "[0.90, 0.92]"), "", "3.0", "70", "0: 0.91"],
        ["digits", (Code("F A"),), ("0.95", "(one seed)"), "", "4.0", "80", "0: 0.95"],
        ["mnist", "lie", "-", "", "5.0", "90", ""],
    ],
    "Figures",
    ["A note."],
)


def drawn(*tables: Table, width: int = 80) -> list[str]:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(to_terminal(tables))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_terminal_has_groups_once_and_columns_below_each_other() -> None:
    _, title, _, over, heads, rule, *rows, _, note = drawn(TABLE)
    assert (title, note) == ("Figures", "A note.")
    assert set(rule) == {"─"}
    cells = [[part for part in re.split(r" {2,}", line) if part] for line in (over, heads, *rows)]
    assert cells == [
        ["test", "seconds"],
        ["task", "scheme", "[95%]", "rate"],
        ["digits", "lie", "0.91", "3.0"],
        ["A F", "[0.90, 0.92]", "70"],
        ["train.lr=1"],
        ["F A", "0.95", "4.0"],
        ["(one seed)", "80"],
        ["mnist", "lie", "-", "5.0"],
        ["90"],
    ]
    ends = {len(line) for line in (over, heads, rows[0], rows[1])}
    assert len(ends) == 1  # numbers are set right
    assert drawn(Table([Column("one")], [["1"]], detail=ON_PAGES), TABLE) == drawn(TABLE)  # the first is for pages


def test_no_color_counts_for_more_than_force_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    document = Document("title", [TABLE])
    assert "\x1b" in document_to_terminal(document)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in document_to_terminal(document)


def test_markdown_is_the_table_alone_with_lines_side_by_side() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "| task | scheme | test [95%] |",
        "| --- | --- | --- |",
        "| digits | lie, `A F`, train.lr=1 | 0.91 [0.90, 0.92] |",
        "|  | `F A` | 0.95 (one seed) |",
        "| mnist | lie | - |",
    ]


def test_a_page_has_every_column_and_every_cell_says_which_it_is_of() -> None:
    page = to_html(TABLE)
    assert page.startswith('<h2>Figures</h2>\n<div class="scroll stack">')
    assert page.endswith('\n<p class="soft">A note.</p>')
    assert re.findall(r"<tr><th[^>]*>(\w+)", page) == ["task", "digits", "digits", "mnist"]
    heads = ["scheme", "test [95%]", "seconds", "rate", "seeds"]
    assert re.findall(r'data-head="([^"]*)"', page) == [*heads, *heads, *heads[:-1]]
    assert "lie<small><code>A F</code></small><small>train.lr=1</small>" in page
    assert "empty" not in page
    assert "stack" not in to_html(Table([Column("one")], [["1"]], stacked=False))


def test_a_long_name_is_broken_where_one_may() -> None:
    rows = [["strang-midpoint", "1"], ["model.kv_heads=2", "2"], [Code("version:2.6.0|smooth:none"), "3"]]
    lines = drawn(Table([Column("scheme", text=True), Column("x")], rows))[2:]
    assert [line.split()[0] for line in lines] == ["strang-", "midpoint", "model.", "kv_heads=2", str(rows[2][0])]


def test_a_group_changes_with_what_stands_before_it() -> None:
    columns = [Column("task", text=True, grouped=True), Column("metric", text=True, grouped=True), Column("x")]
    rows = [["one", "accuracy", "1"], ["one", "accuracy", "2"], ["two", "accuracy", "3"], ["two", "loss", "4"]]
    assert to_markdown(Table(columns, rows)).splitlines()[2:] == [
        "| one | accuracy | 1 |", "|  |  | 2 |", "| two | accuracy | 3 |", "|  | loss | 4 |"
    ]  # fmt: skip


def kinds() -> dict[str, list[Table]]:
    """Every kind of table that a study prints."""
    runs = [trial(text, seed, 0.97 + 0.003 * i + 0.002 * seed) for i, text in enumerate(WIDEST) for seed in range(3)]
    swept = [trial("lie", s, 0.9, v, (f"model.embedding_scale={v}7417",), points=20) for s in (0, 1) for v in (1, 2)]
    return {
        "this": [TABLE],
        "compare": comparison_tables(comparison(runs)),
        "sweep": comparison_tables(comparison(swept)),
        "diverged": comparison_tables(comparison([trial("lie", 0, 0.9), trial("lie", 1, None)])),
        "translation": comparison_tables(translation(5)),
        "together": tables_together([("one", translation(5)), ("other", comparison(runs))]),
        "orders": orders_tables(with_slopes(orders(("lie", "suzuki4")))),
    }


WIDEST = ("lie", "suzuki4", "reversible", "symmetrised-heun", "A*1/7 F/2 A*2/7 F/4 A*4/7 F/4 @rk4")


@pytest.mark.parametrize("kind", kinds())
def test_nothing_is_cut_at_any_width(kind: str) -> None:
    """Each character of each head and cell is printed, each number in one piece, and no line is too long."""
    for table in kinds()[kind]:
        if table.detail == ON_PAGES:
            continue
        columns = grouped(table.fitted(NOT_IN_MARKDOWN))
        words = [part for column, cells in columns for cell in (column.head, *cells) for part in lines(cell)]
        numbers = [part for column, cells in columns if not column.text for cell in cells for part in lines(cell)]
        for width in range(40, 201, 10):
            shown = drawn(table, width=width)
            text = "\n".join(shown)
            assert max(map(len, shown)) <= width
            assert "\u2026" not in text
            assert Counter("".join("".join(words).split())) <= Counter("".join(text.split()))
            flat = " ".join(text.split())
            assert all(number in flat for number in numbers)


def test_a_narrow_terminal_has_a_block_for_each_row() -> None:
    assert drawn(TABLE, width=30)[3:13] == [
        "task", "────", "digits", "  scheme: lie, A F, train.lr=1", "  test [95%]: 0.91 [0.90,", "  0.92]",
        "  seconds: 3.0", "  rate: 70", "", "digits",
    ]  # fmt: skip


HOSTILE = [
    "<script>alert(1)</script>", "a & b &lt; c", "`<b>`", "a|b", "a\\|b", "two\nlines\r\nof text",
    "[x](javascript:alert(1))", "![x](http://192.0.2.1/x)",
    "back\\slash\\", "``code``", "<!-- gone -->", "*", "a_b=[1, 2]", "p < 0.05",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_outside_stays_text_in_markdown(text: str) -> None:
    """A parser of Markdown with raw HTML allowed finds the cells, and in them nothing but the text."""
    table = Table([Column("name", text=True), Column(text)], [[text, (Code(text), text)], [(text, "1"), "2"]])
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(to_markdown(table))
    cells = [token for token in tokens if token.type == "inline"]
    inner = [part for cell in cells for part in cell.children or ()]
    assert {part.type for part in inner} <= {"text", "text_special", "code_inline"}
    flat = " ".join(text.split())
    assert ["".join(part.content for part in cell.children or ()) for cell in cells] == [
        "name", flat, flat, f"{flat}{between(flat)}{flat}", f"{flat}, 1", "2"
    ]  # fmt: skip


def between(text: str) -> str:
    return " " if text.startswith("[") else ", "


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"The table 'Figures' has 2 columns, but a row \('1',\)"):
        Table([Column("one"), Column("two")], [["1"]], "Figures")
