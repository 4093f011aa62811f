"""Instructions with answers, or plain text, read from files: one prompt and one answer a row."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..support.documents import json_lines, parse_json
from .files import kind_of, read_text

PROMPTS, ANSWERS, CONTEXTS = ("instruction", "prompt"), ("response", "output", "answer"), ("context", "input")
TABLES = (".csv", ".tsv")
INSTANCES = "instances"  # where Self-Instruct has its inputs and outputs; the first is taken
ARRAY = re.compile(r"\s*\[\s*\{")  # how an array of objects begins
HINT = "each line is an object with instruction and response"
PIECE = 2000  # characters of plain text in a row, at most, unless a line is longer


class Row(NamedTuple):
    """A prompt, which is empty in plain text; its answer; the prompt without its template, for people; and the line of
    its file, for errors."""

    prompt: str
    answer: str
    instruction: str = ""
    where: str = ""

    @property
    def shown(self) -> str:
        return self.instruction or self.prompt


def read_rows(path: Path, template: str) -> list[Row]:
    """The rows of a file: JSON lines, an array of objects, or any other text. A prompt stands in the template's
    {prompt}."""
    if (kind := kind_of(path)) in TABLES:
        raise ValueError(
            f"{path} ends in {kind}, which is not read here: write an object with instruction and response on each "
            "line of a .jsonl file, or name it .txt to learn it as it is"
        )
    text = read_text(path)
    if ARRAY.match(text):
        found = enumerate(parse_json(text, str(path), "list", HINT), 1)
        rows = [row_of(f"{path}, row {number}", one, template) for number, one in found]
    elif ".jsonl" in path.suffixes or text.lstrip().startswith("{"):
        found = json_lines(text.split("\n"), str(path), HINT)
        rows = [row_of(f"{path}, line {number}", one, template) for number, one in found]
    else:
        rows = list(plain_rows(path, text))
    if not rows:
        raise ValueError(f"{path} is empty: give a file with text")
    return rows


def row_of(where: str, found: Any, template: str) -> Row:
    """The row that an object describes."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is not an object: write an instruction and a response")
    instances = found.get(INSTANCES)
    if isinstance(instances, list) and instances and isinstance(instances[0], dict):
        found = {key: value for key, value in found.items() if key != INSTANCES} | instances[0]
    prompt, answer = entry(where, found, PROMPTS), entry(where, found, ANSWERS)
    contexts = [found[name] for name in CONTEXTS if isinstance(found.get(name), str) and found[name].strip()]
    instruction = "\n\n".join([prompt, *contexts])
    return Row(template.replace("{prompt}", instruction), answer, instruction, where)


def entry(where: str, found: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """The first of these entries that a row has; an empty one is refused."""
    name = next((name for name in names if name in found), None)
    if name is None:
        entries = ", ".join(found) or "none"
        raise ValueError(f"{where} has no {names[0]}: its entries are {entries}; write an instruction and a response")
    value = found[name]
    if not isinstance(value, str):
        raise ValueError(f"{where} has an entry {name} that is not text: write it in quotes")
    if not value.strip():
        raise ValueError(f"{where} has an empty {name}: fill it in, or remove the line")
    return value


def plain_rows(path: Path, text: str) -> Iterator[Row]:
    """Plain text in pieces of whole lines."""
    piece, first = "", 1
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if piece and len(piece) + len(line) > PIECE:
            if piece.strip():
                yield Row("", piece, where=f"{path}, line {first}")
            piece, first = "", number
        piece += line
    if piece.strip():
        yield Row("", piece, where=f"{path}, line {first}")
