"""Which columns of a table are the text and the label, by their names or as told."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..support.typed import nearest
from .tables import Row, Table, without_header

TEXTS = ("text", "sentence", "review", "comment", "content", "message", "document", "body", "tweet", "question")
PAIRS = (
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("text", "text2"),
)
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
    found = label or known_label(table, known, texts)
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
    pairs = [pair for pair in PAIRS if all(name in known for name in pair)]
    if pairs:
        return tuple(known[name] for name in pairs[0])
    return tuple(one_of(table, "text", [known[name] for name in (*TEXTS, "sentence1", "text1") if name in known]))


def known_label(table: Table, known: dict[str, str], texts: Sequence[str]) -> str:
    found = one_of(table, "label", [known[name] for name in LABELS if name in known and known[name] not in texts])
    return found[0] if found else ""


def one_of(table: Table, option: str, names: list[str]) -> list[str]:
    """These names; several are refused, since nobody can know which is meant."""
    if len(names) > 1:
        raise ValueError(
            f"{table.path} has several columns that may be the {option}, {', '.join(names)}: add one of them, e.g. "
            f"data.{option}={names[0]}"
        )
    return names


def nameless(table: Table) -> tuple[Table, Columns]:
    """Two columns without names: the text is the one that is longer in the mean."""
    whole = without_header(table)
    first, second = (sum(len(str(row.fields[name])) for row in whole.rows) for name in whole.columns)
    text, label = whole.columns if first >= second else whole.columns[::-1]
    return whole, Columns((text,), label)


def labelled_rows(table: Table, columns: Columns) -> list[Example]:
    """The examples of a table. A missing or empty text or label is refused with its line."""
    for name in columns.texts:
        if not any(str(row.fields.get(name) or "").strip() for row in table.rows):
            raise ValueError(f'{table.path}: the column "{name}" is empty: name the one with text, data.text=COLUMN')
    return [
        Example(row.line, tuple(text_in(table, row, name) for name in columns.texts), label_in(table, row, columns))
        for row in table.rows
    ]


def text_in(table: Table, row: Row, name: str) -> str:
    value = field_in(table, row, name)
    if not isinstance(value, str):
        raise ValueError(f"{table.at(row)}: {name} is {value!r}, and needs to be text")
    if not value.strip():
        raise ValueError(f"{table.at(row)}: {name} is empty: fill it in, or remove the line")
    return value


def label_in(table: Table, row: Row, columns: Columns) -> str:
    value = field_in(table, row, columns.label)
    if isinstance(value, dict | list) or value is None or not str(value).strip():
        given = "empty" if value is None or value == "" else repr(value)
        raise ValueError(f"{table.at(row)}: {columns.label} is {given}, and needs to be a class or a number")
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def field_in(table: Table, row: Row, name: str) -> Any:
    if name not in row.fields:
        raise ValueError(f'{table.at(row)} has no "{name}", which other lines have: add it, or remove the line')
    return row.fields[name]
