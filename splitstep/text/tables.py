"""Labelled text from CSV, TSV and JSONL, with errors that name file and line: the rows of a file, and which columns are
the text and the label, by their names or as told."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

from ..support.documents import json_lines, split_lines
from ..support.typed import nearest
from .files import kind_of, read_text

DELIMITERS = ",;\t|"
LONGEST_FIELD = 1 << 27  # characters of one field; Python's own limit is 2^17
Record = tuple[int, list[str]]
"""The line on which a record begins, and its fields."""


class Row(NamedTuple):
    """One example: the line of the file on which it begins, and its fields by column."""

    line: int
    fields: dict[str, Any]


@final
class Table(NamedTuple):
    """The rows of a file. `named`: whether the file itself names its columns."""

    path: Path
    columns: tuple[str, ...]
    rows: list[Row]
    named: bool = True

    def at(self, row: Row) -> str:
        """Where a row is, for errors."""
        return f"{self.path}, line {row.line}"


def read_table(path: Path) -> Table:
    """The table in a file; its name says how to read it: .csv, .tsv, .jsonl, also packed as .gz or .xz."""
    kind = kind_of(path)
    if kind not in READERS:
        raise ValueError(
            f'{path} ends in "{kind}", and labelled text is read from .csv, .tsv and .jsonl: save it as one of these'
        )
    table = READERS[kind](path, read_text(path))
    if not table.rows:
        raise ValueError(f"{path} has no rows: put one example on each line, with a header such as text,label")
    return table


def read_csv(path: Path, text: str) -> Table:
    """Comma-separated values as spreadsheets write them: quotes, doubled quotes, newlines in fields."""
    first = "".join(text.split("\n", 1)[0].split('"')[::2])  # outside of quotes
    return with_header(path, list(csv_records(path, text, max(DELIMITERS, key=first.count))))


def csv_records(path: Path, text: str, delimiter: str) -> Iterator[Record]:
    """The records, each with the line on which it begins; empty lines are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(LONGEST_FIELD)
    begins = 1
    try:
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {begins}: the quotes are not those of CSV ({error}): a quote inside a quoted field is "
            'doubled ("")'
        ) from None
    finally:
        csv.field_size_limit(limit)


def tab_records(text: str) -> list[Record]:
    """The fields of each line between tabs; empty lines are left out. A quote is a character like any other, as in the
    files of GLUE."""
    return [(number, line.split("\t")) for number, line in enumerate(split_lines(text), 1) if line]


def with_header(path: Path, records: list[Record]) -> Table:
    """The table whose first record names its columns. A column without a name, such as that of row numbers which
    pandas writes, gets its number. Two columns may both lack names: see `nameless`."""
    if not records:
        return Table(path, (), [])
    names = tuple(name.strip() for name in records[0][1])
    for line, record in records:
        if len(record) != len(names):
            raise ValueError(
                f"{path}, line {line} has {len(record)} fields, and the first line has {len(names)}: put fields that "
                "hold the separator in quotes, or correct the line"
            )
    if len(names) == 2 and (len(set(names)) < 2 or "" in names):
        names = numbered_columns(2)
        return Table(path, names, rows_of(names, records), named=False)
    named = tuple(name or number for name, number in zip(names, numbered_columns(len(names)), strict=True))
    [(name, times)] = Counter(named).most_common(1)
    if times > 1:
        raise ValueError(f'{path}, line {records[0][0]} names the column "{name}" twice: rename or remove one')
    return Table(path, named, rows_of(named, records[1:]))


def numbered_columns(count: int) -> tuple[str, ...]:
    """The names of columns that have none."""
    return tuple(f"column {number}" for number in range(1, count + 1))


def rows_of(names: tuple[str, ...], records: list[Record]) -> list[Row]:
    return [Row(line, dict(zip(names, record, strict=True))) for line, record in records]


def read_jsonl(path: Path, text: str) -> Table:
    """One JSON object a line. The columns are the names that any of the lines has."""
    found = json_lines(text.split("\n"), str(path), 'write each line as {"text": "...", "label": "..."}')
    rows = [Row(number, fields) for number, fields in found]
    columns = tuple(dict.fromkeys(name for row in rows for name in row.fields))
    return Table(path, columns, rows)


READERS: dict[str, Callable[[Path, str], Table]] = {
    ".csv": read_csv, ".tsv": lambda path, text: with_header(path, tab_records(text)), ".jsonl": read_jsonl,
}  # fmt: skip


TEXTS = ("text", "sentence", "review", "comment", "content", "message", "document", "body", "tweet", "question")
PAIRS = (
    ("text1", "text2"), ("sentence1", "sentence2"), ("question1", "question2"), ("premise", "hypothesis"),
    ("question", "sentence"), ("text", "text2"),
)  # fmt: skip
LABELS = ("label", "class", "category", "target", "score", "sentiment", "rating", "stars")


class Columns(NamedTuple):
    """The names of a table's columns: one text or two, and the label."""

    texts: tuple[str, ...]
    label: str


class Example(NamedTuple):
    """One example of a table: its line, its texts and its label as written."""

    line: int
    texts: tuple[str, ...]
    label: str


def find_columns(table: Table, text: str, text2: str, label: str) -> tuple[Table, Columns]:
    """The columns as named by options, else by their names, and the table, which may turn out to have no header."""
    for option, name in (("text", text), ("text2", text2), ("label", label)):
        if name and name not in table.columns:
            ending = nearest(name, table.columns, f"its columns are {', '.join(table.columns)}")
            raise ValueError(f'{table.path} has no column "{name}" (option {option}){ending}')
    if text2 and not text:
        raise ValueError(f"option text2 is {text2} and option text is missing: name both, e.g. data.text=question")
    known = {name.lower(): name for name in table.columns}
    texts = tuple(filter(None, (text, text2))) or known_texts(table, known)
    labels = [known[name] for name in LABELS if name in known and known[name] not in texts]
    found = label or only(table, "label", labels)
    if not texts and not found and len(table.columns) == 2:
        return nameless(table)
    if not texts or not found:
        missing = "text" if not texts else "label"
        raise ValueError(
            f"{table.path} has the columns {', '.join(table.columns)}, and none is known as the {missing}: add "
            f"data.{missing}=COLUMN"
        )
    return table, Columns(texts, found)


def known_texts(table: Table, known: dict[str, str]) -> tuple[str, ...]:
    """The columns with the name of a text, or of a pair of texts."""
    for pair in PAIRS:
        if all(name in known for name in pair):
            return tuple(known[name] for name in pair)
    found = only(table, "text", [known[name] for name in (*TEXTS, "sentence1", "text1") if name in known])
    return (found,) if found else ()


def only(table: Table, option: str, names: list[str]) -> str:
    """The one name, if there is one; of several nobody can know which is meant."""
    if len(names) > 1:
        raise ValueError(
            f"{table.path} has several columns that may be the {option}, {', '.join(names)}: add one of them, e.g. "
            f"data.{option}={names[0]}"
        )
    return "".join(names)


def nameless(table: Table) -> tuple[Table, Columns]:
    """Two columns without names: the text is the one that is longer in the mean. The first line is no header but an
    example."""
    if table.named:
        records = [(1, list(table.columns))] + [(row.line, list(row.fields.values())) for row in table.rows]
        names = numbered_columns(len(table.columns))
        table = Table(table.path, names, rows_of(names, records), named=False)
    first, second = (sum(len(str(row.fields[name])) for row in table.rows) for name in table.columns)
    text, label = table.columns if first >= second else table.columns[::-1]
    return table, Columns((text,), label)


def labelled_rows(table: Table, columns: Columns) -> list[Example]:
    """The examples of a table. A missing or empty text or label is refused with its line."""
    for name in columns.texts:
        if not any(str(row.fields.get(name) or "").strip() for row in table.rows):
            raise ValueError(f'{table.path}: the column "{name}" is empty: name the one with text, data.text=COLUMN')
    found = list[Example]()
    for row in table.rows:
        texts, value = tuple(text_in(table, row, name) for name in columns.texts), field_in(table, row, columns.label)
        if isinstance(value, dict | list) or value is None or not str(value).strip():
            given = "empty" if value is None or value == "" else repr(value)
            raise ValueError(f"{table.at(row)}: {columns.label} is {given}, and needs to be a class or a number")
        label = str(value).lower() if isinstance(value, bool) else str(value).strip()
        found.append(Example(row.line, texts, label))
    return found


def text_in(table: Table, row: Row, name: str) -> str:
    value = field_in(table, row, name)
    if not isinstance(value, str):
        raise ValueError(f"{table.at(row)}: {name} is {value!r}, and needs to be text")
    if not value.strip():
        raise ValueError(f"{table.at(row)}: {name} is empty: fill it in, or remove the line")
    return value


def field_in(table: Table, row: Row, name: str) -> Any:
    if name not in row.fields:
        raise ValueError(f'{table.at(row)} has no "{name}", which other lines have: add it, or remove the line')
    return row.fields[name]
