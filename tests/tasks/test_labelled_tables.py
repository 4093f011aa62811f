"""Tables of labelled text: read as the csv module and pandas read them, and refused with file and line."""

import csv
import gzip
import io
import json
import lzma
import random
from pathlib import Path

import pytest

from splitstep.text.tables import Table, find_columns, labelled_rows, read_table

NASTY = [
    ('said "no", then left', "a"),
    ("two\nlines", "b"),
    ("windows\r\nline", "a"),
    ("Grüße; naïve — 日本語 🙂", "b"),
    ("  blanks , kept  ", "a"),
    ("\ttab", "b"),
    ("'single' quotes", "a"),
    ("=1+1", "b"),
    (",", "a"),
    ('"', "b"),
    ("line\u2028separator and \x85", "a"),
]


def written(rows: list[tuple[str, str]], delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, quoting=quoting).writerows([("text", "label"), *rows])  # pyright: ignore
    return out.getvalue()


def fields(table: Table) -> list[tuple[str, ...]]:
    return [tuple(row.fields.values()) for row in table.rows]


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_nasty_fields_come_back_as_the_csv_module_wrote_them(
    delimiter: str, quoting: int, bom: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes((bom + written(NASTY, delimiter, quoting)).encode())
    assert fields(read_table(path)) == NASTY


def test_tables_are_read_as_pandas_reads_them(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    letters, chance = 'ab ",;\n\r\té"', random.Random(0)
    rows = [("".join(chance.choices(letters, k=chance.randint(1, 12))) + "x", str(i)) for i in range(300)]
    path = tmp_path / "a.csv"
    path.write_bytes(written(rows).encode())
    theirs = pandas.read_csv(path, dtype=str, keep_default_na=False, lineterminator=None, engine="python")
    assert fields(read_table(path)) == list(theirs.itertuples(index=False, name=None)) == rows


def test_rows_know_the_line_on_which_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one\ntwo\nthree",a\n\nfour,b\n')
    assert [row.line for row in read_table(path).rows] == [2, 6]


def test_tabs_separate_and_quotes_are_characters_in_tsv(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n" never closed\t1\nshe said "x"\t0\n')
    assert fields(read_table(path)) == [('" never closed', "1"), ('she said "x"', "0")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_are_read(pack: object, tmp_path: Path) -> None:
    suffix = ".gz" if pack is gzip.compress else ".xz"
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(pack(written(NASTY).encode()))  # pyright: ignore
    assert fields(read_table(path)) == NASTY


def test_a_field_may_be_longer_than_the_csv_module_allows_by_default(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "x" * (before + 1) + ",a\n")
    assert len(read_table(path).rows[0].fields["text"]) == before + 1
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.csv", b"text,label\nx,a\ny\n", "a.csv, line 3 has 1 fields, and the first line has 2"),
    ("a.csv", b'text,label\nx,a\n"never closed,b\nz,c\n', "a.csv, line 3: the quotes are not those of CSV"),
    ("a.csv", b"text,label\nx,a\n\xff,b\n", "a.csv.*line 3"),
    ("a.csv", b"text,label\n", "a.csv has no rows"),
    ("a.xlsx", b"PK", 'a.xlsx ends in ".xlsx"'),
    ("a.jsonl", b'{"text": "x", "label": 1}\n{"text": \n', "a.jsonl, line 2 is not JSON"),
    ("a.jsonl", b'["x", 1]\n', "a.jsonl, line 1 is not a JSON object"),
    ("a.jsonl", b'{"text": "x"}\n' + b"[" * 100_000, "a.jsonl, line 2 is not JSON .it is nested too deeply"),
    ("a.jsonl", b'{"text": "x"}\n{"text": "y\\ud83d"}\n', "a.jsonl, line 2 is not JSON .*half of a character"),
    ("a.csv", b"text,label,label\nx,a,b\n", 'a.csv, line 1 names the column "label" twice'),
])  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_table(tmp_path / name)
    assert "\n" not in str(error.value)


def columns_of(header: str, tmp_path: Path, **options: str) -> tuple[tuple[str, ...], str]:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + ",".join("a longer text" for _ in header.split(",")) + "\n")
    names = (options.get("text", ""), options.get("text2", ""), options.get("label", ""))
    return tuple(find_columns(read_table(path), *names)[1])  # pyright: ignore


@pytest.mark.parametrize(("header", "texts", "label"), [
    ("text,label", ("text",), "label"),
    ("id,Review,Sentiment", ("Review",), "Sentiment"),
    ("sentence1,sentence2,label", ("sentence1", "sentence2"), "label"),
    ("question,sentence,label", ("question", "sentence"), "label"),
    ("premise,hypothesis,class", ("premise", "hypothesis"), "class"),
    ("score,body", ("body",), "score"),
])  # fmt: skip
def test_columns_are_found_by_their_names(header: str, texts: tuple[str, ...], label: str, tmp_path: Path) -> None:
    assert columns_of(header, tmp_path) == (texts, label)


def test_columns_without_a_name_are_numbered_as_pandas_and_spreadsheets_write_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",text,label,\n0,good,a,\n1,bad,b,\n")
    table, columns = find_columns(read_table(path), "", "", "")
    assert table.columns == ("column 1", "text", "label", "column 4")
    assert [(one.texts, one.label) for one in labelled_rows(table, columns)] == [(("good",), "a"), (("bad",), "b")]


def test_columns_are_those_that_are_named(tmp_path: Path) -> None:
    found = columns_of("text,a,b,label,c", tmp_path, text="a", text2="b", label="c")
    assert found == (("a", "b"), "c")


@pytest.mark.parametrize(("header", "options", "message"), [
    ("text,lable", {"label": "label"}, 'no column "label" .*did you mean "lable"'),
    ("text,x,y", {}, "none is known as the label: add data.label=COLUMN"),
    ("x,y,label", {}, "none is known as the text: add data.text=COLUMN"),
    ("text,review,label", {}, "several columns that may be the text, text, review"),
    ("text,label,rating", {}, "several columns that may be the label, label, rating"),
    ("a,b,label", {"text2": "b"}, "option text is missing"),
])  # fmt: skip
def test_columns_that_are_not_clear_are_refused(
    header: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        columns_of(header, tmp_path, **options)


def test_two_columns_need_no_header(tmp_path: Path) -> None:
    """The text is the longer one; the first line is an example."""
    for rows in (["pos,what a good film", "neg,what a bad film"], ["what a good film,pos", "what a bad film,neg"]):
        path = tmp_path / "a.csv"
        path.write_text("\n".join(rows) + "\n")
        table, columns = find_columns(read_table(path), "", "", "")
        found = [(one.line, one.texts, one.label) for one in labelled_rows(table, columns)]
        assert found == [(1, ("what a good film",), "pos"), (2, ("what a bad film",), "neg")]


@pytest.mark.parametrize(("rows", "message"), [
    ([{"text": "x", "label": "a"}, {"text": "y"}], 'line 2 has no "label", which other lines have'),
    ([{"text": "x", "label": "a"}, {"label": "a"}], 'line 2 has no "text", which other lines have'),
    ([{"text": "x", "label": "a"}, {"text": " ", "label": "a"}], "line 2: text is empty"),
    ([{"text": "x", "label": "a"}, {"text": 5, "label": "a"}], "line 2: text is 5, and needs to be text"),
    ([{"text": "x", "label": None}], "line 1: label is empty"),
    ([{"text": "x", "label": ["a"]}], "line 1: label is .'a'., and needs"),
    ([{"text": "", "label": "a"}, {"text": "", "label": "b"}], 'the column "text" is empty'),
])  # fmt: skip
def test_missing_and_empty_fields_are_refused_with_their_line(
    rows: list[dict[str, object]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    table, columns = find_columns(read_table(path), "", "", "")
    with pytest.raises(ValueError, match=message):
        labelled_rows(table, columns)


def test_labels_of_jsonl_may_be_any_plain_value(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "x", "label": one}) + "\n" for one in (1, 2.5, True, "a ")))
    table, columns = find_columns(read_table(path), "", "", "")
    assert [one.label for one in labelled_rows(table, columns)] == ["1", "2.5", "true", "a"]
