"""The exam of the study: held-out rows of the training file, files of other instructions, and plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...distillation.judging.answers import Writing
from ...distillation.judging.exam import WINDOW, Exam
from ...distillation.judging.tokens import Causal, answer_tokens, most_tokens, prompt_tokens
from ...support.words import counted
from ...tasks.instruct import TEMPLATE, Instruct
from ...text.files import find_own
from ...text.instructions import Row, read_rows, read_text

HELD_OUT = "held out"  # the set of the last rows
PLAIN = 200_000  # characters of the plain text that are read, so judging stays short


def held_out(rows: Sequence[Row], count: int) -> tuple[list[Row], list[Row]]:
    """The rows before the last `count`, of which runs train on most, and the last."""
    if not 0 < count < len(rows):
        raise ValueError(f"{count} of {len(rows)} rows cannot be held out: set data.test to fewer, or give more rows")
    return list(rows[:-count]), list(rows[-count:])


class ExamFiles(NamedTuple):
    """The files of an exam: the training texts, whose last rows are held out; sets of other instructions by name; plain
    text; and the folder where files are that are not here."""

    texts: Sequence[Path]
    questions: Mapping[str, Path]
    plain: Path | None = None
    data: Path | None = None

    def rows(self, path: Path, template: str) -> list[Row]:
        found = read_rows(self.find(path), template)
        if not found[0].prompt:
            raise ValueError(f"{path} is plain text, and students answer instructions: give JSON lines, or use --plain")
        return found

    def plain_text(self) -> str:
        """The beginning of the plain text; empty if there is no file."""
        if self.plain is None:
            return ""
        text = read_text(self.find(self.plain))[:PLAIN]
        if not text.strip():
            raise ValueError(f"{self.plain} is empty: give a file with text")
        return text

    def find(self, path: Path) -> Path:
        return find_own(str(path), Instruct.name, self.data)


def make_exam(
    files: ExamFiles, models: Sequence[Causal], writing: Writing, options: Mapping[str, Any]
) -> tuple[Exam, list[str]]:
    """The exam for models, and notes on the rows that were left out: runs train on their prompt, or one of the models
    has no room for them.

    `options` are the recipe's for its data: `test`, how many of the last rows are held out, and `template`.
    """
    template = options.get("template", TEMPLATE)
    trained, last = held_out([row for path in files.texts for row in files.rows(path, template)], options["test"])
    sets = {HELD_OUT: last, **{name: files.rows(path, template) for name, path in files.questions.items()}}
    asked, notes = {row.prompt for row in trained}, list[str]()
    new = {name: [row for row in own if row.prompt not in asked] for name, own in sets.items()}
    notes += left_out(sets, new, "have prompts that are trained on: give rows with other prompts")
    kept = {name: [row for row in own if fits(row, models, writing)] for name, own in new.items()}
    notes += left_out(new, kept, "are too long for a model: lower --answer-tokens, or give shorter rows")
    window = min([WINDOW, *(most for one in models if (most := most_tokens(one.model)) is not None)])
    return Exam(kept, writing, files.plain_text(), window), notes


def left_out(before: Mapping[str, Sequence[Row]], after: Mapping[str, Sequence[Row]], why: str) -> list[str]:
    """A note for each set of which rows were left out; an error if none remain."""
    reason, _, advice = why.partition(": ")
    for name, rows in after.items():
        if not rows:
            raise ValueError(f"{name}: all of the {counted(len(before[name]), 'row')} {reason}: {advice}")
    lost = {name: len(before[name]) - len(rows) for name, rows in after.items()}
    return [
        f"{name}: {count} of {len(before[name])} rows {reason}, and are left out"
        for name, count in lost.items()
        if count
    ]


def fits(row: Row, models: Sequence[Causal], writing: Writing) -> bool:
    """Whether all models can read the row, and write an answer to it."""
    return all(has_room(one, row, writing) for one in models)


def has_room(one: Causal, row: Row, writing: Writing) -> bool:
    most = most_tokens(one.model)
    if most is None:
        return True
    asked = len(prompt_tokens(one.tokenizer, row.prompt)) + writing.max_tokens
    return max(asked, len(answer_tokens(one.tokenizer, row).ids)) <= most
