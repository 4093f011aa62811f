"""Instructions with answers, or plain text, read from files: one prompt and one answer a row."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .fetch import read

PROMPTS, ANSWERS, CONTEXTS = ("instruction", "prompt"), ("response", "output", "answer"), ("context", "input")
PIECE = 2000  # characters of plain text in a row, at most, unless a line is longer


class Row(NamedTuple):
    """A prompt, which is empty in plain text, and the answer that is learnt; `where` is for errors."""

    prompt: str
    answer: str
    where: str


def read_rows(path: Path, template: str) -> list[Row]:
    """The rows of a file: JSON lines, or any other text."""
    try:
        text = read(path).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}): convert it") from None
    is_json = ".jsonl" in path.suffixes or text.lstrip().startswith("{")
    rows = list(json_rows(path, text, template) if is_json else plain_rows(path, text))
    if not rows:
        raise ValueError(f"{path} is empty: give a file with text")
    return rows


def json_rows(path: Path, text: str, template: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield json_row(f"{path} line {number}", line, template)


def json_row(where: str, line: str, template: str) -> Row:
    try:
        found = json.loads(line)
    except ValueError:
        raise ValueError(f"{where} is not JSON: each line is an object with instruction and response") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not an object: write an instruction and a response")
    prompt, answer = entry(where, found, PROMPTS), entry(where, found, ANSWERS)
    contexts = [found[name] for name in CONTEXTS if isinstance(found.get(name), str) and found[name].strip()]
    return Row(template.replace("{prompt}", "\n\n".join([prompt, *contexts])), answer, where)


def entry(where: str, found: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these entries that a row has; an empty one is refused."""
    name = next((name for name in names if name in found), None)
    if name is None:
        raise ValueError(f"{where} has no {names[0]}: its entries are {', '.join(found) or 'none'}")
    value = found[name]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where} has an empty {name}: fill it in, or remove the line")
    return value


def plain_rows(path: Path, text: str) -> Iterator[Row]:
    """Plain text in pieces of whole lines."""
    piece, first = "", 1
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if piece and len(piece) + len(line) > PIECE:
            if piece.strip():
                yield Row("", piece, f"{path} line {first}")
            piece, first = "", number
        piece += line
    if piece.strip():
        yield Row("", piece, f"{path} line {first}")
