"""Tables of labelled text: CSV, TSV and JSONL, with errors that name file and line."""

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, final

from ..support.documents import decode, json_lines
from .files import PACKED, read

DELIMITERS = ",;\t|"
LONGEST_FIELD = 1 << 27  # characters of one field; Python's own limit is 2^17


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
    kind = suffix_of(path)
    if kind not in READERS:
        raise ValueError(
            f'{path} ends in "{kind}", and labelled text is read from .csv, .tsv and .jsonl: save it as one of these'
        )
    table = READERS[kind](path, decode(read(path), str(path)))
    if not table.rows:
        raise ValueError(f"{path} has no rows: put one example on each line, with a header such as text,label")
    return table


def suffix_of(path: Path) -> str:
    """What the file is, whether packed or not."""
    return Path(path.stem).suffix.lower() if path.suffix in PACKED else path.suffix.lower()


def read_csv(path: Path, text: str) -> Table:
    """Comma-separated values as spreadsheets write them: quotes, doubled quotes, newlines in fields."""
    return with_header(path, list(csv_records(path, text, delimiter_of(text))))


def delimiter_of(text: str) -> str:
    """What separates the fields: of comma, semicolon, tab and bar the one that the first line has most of, outside of
    quotes."""
    first = "".join(text.split("\n", 1)[0].split('"')[::2])
    return max(DELIMITERS, key=first.count)


def csv_records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
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


def read_tsv(path: Path, text: str) -> Table:
    """Tab-separated values, one row a line; a quote is a character like any other, as in the files of GLUE."""
    lines = enumerate((line.removesuffix("\r") for line in text.split("\n")), 1)
    return with_header(path, [(number, line.split("\t")) for number, line in lines if line])


def with_header(path: Path, records: list[tuple[int, list[str]]]) -> Table:
    """The table whose first record names its columns. A column without a name, such as that of row numbers which
    pandas writes, gets its number. Two columns may both lack names: see `without_header`."""
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
    if twice := [name for name in named if named.count(name) > 1]:
        raise ValueError(f'{path}, line {records[0][0]} names the column "{twice[0]}" twice: rename or remove one')
    return Table(path, named, rows_of(named, records[1:]))


def numbered_columns(count: int) -> tuple[str, ...]:
    """The names of columns that have none."""
    return tuple(f"column {number}" for number in range(1, count + 1))


def rows_of(names: tuple[str, ...], records: list[tuple[int, list[str]]]) -> list[Row]:
    return [Row(line, dict(zip(names, record, strict=True))) for line, record in records]


def without_header(table: Table) -> Table:
    """The same table if its first line is no header but an example."""
    if not table.named:
        return table
    names = numbered_columns(len(table.columns))
    records = [(1, list(table.columns))] + [(row.line, list(row.fields.values())) for row in table.rows]
    return Table(table.path, names, rows_of(names, records), named=False)


def read_jsonl(path: Path, text: str) -> Table:
    """One JSON object a line. The columns are the names that any of the lines has."""
    found = json_lines(text.split("\n"), str(path), 'write each line as {"text": "...", "label": "..."}')
    rows = [Row(number, fields) for number, fields in found]
    columns = tuple(dict.fromkeys(name for row in rows for name in row.fields))
    return Table(path, columns, rows)


READERS: dict[str, Callable[[Path, str], Table]] = {".csv": read_csv, ".tsv": read_tsv, ".jsonl": read_jsonl}
