"""Instructions with their answers, read from the files of Dolly and Self-Instruct; which of them are held out."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...tasks.instruct import TEMPLATE

HELD_OUT = 500  # rows of Dolly, as in the papers


class Row(NamedTuple):
    """What the model reads, the reference answer, and the instruction alone, for people to read."""

    prompt: str
    answer: str
    instruction: str = ""

    @property
    def shown(self) -> str:
        return self.instruction or self.prompt


def read_rows(path: Path, template: str = TEMPLATE) -> list[Row]:
    """The rows of a JSONL file, which may be packed with xz; a line without an answer is refused. The instruction and
    its input, if it has one, stand in the template's {prompt}; it must be that of the training."""
    rows = list[Row]()
    for number, document in enumerate(documents(path), 1):
        instruction, given, answer = fields_of(document, f"{path}, line {number}")
        if not answer.strip():
            raise ValueError(f"{path}, line {number} has an empty answer: leave the line out")
        shown = f"{instruction}\n\n{given}" if given.strip() else instruction
        rows.append(Row(template.replace("{prompt}", shown), answer, shown))
    if not rows:
        raise ValueError(f"{path} has no rows: name a JSONL file with instructions and answers")
    return rows


def documents(path: Path) -> Iterator[Any]:
    """The JSON values of the lines that are not blank."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}: name a JSONL file with instructions and answers")
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield parsed(line, f"{path}, line {number}")


def parsed(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not JSON ({error.msg}): write one object a line") from None


def fields_of(document: Any, where: str) -> tuple[str, str, str]:
    """Instruction, input and answer: Dolly's names, Alpaca's, or Self-Instruct's with its first instance."""
    known = document if isinstance(document, dict) else {}
    [instance, *_] = known.get("instances") or [{}]
    found = {**known, **instance}
    instruction = found.get("instruction", found.get("prompt"))
    answer = found.get("response", found.get("output"))
    given = found.get("input", found.get("context", ""))
    if not (isinstance(instruction, str) and isinstance(answer, str) and isinstance(given, str)):
        raise ValueError(
            f'{where} lacks an instruction or an answer: write {{"instruction": "...", "response": "..."}}'
        )
    return instruction, given, answer


def split_rows(rows: Sequence[Row], count: int = HELD_OUT) -> tuple[list[Row], list[Row]]:
    """The rows to train on, and the last `count`, which are held out. No held-out prompt is among those to train on."""
    if not 0 < count < len(rows):
        raise ValueError(f"{count} of {len(rows)} rows cannot be held out: hold out at least 1, and fewer than all")
    held_out = list(rows[-count:])
    asked = {row.prompt for row in held_out}
    return [row for row in rows[:-count] if row.prompt not in asked], held_out
