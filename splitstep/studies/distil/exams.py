"""The exam of the study: held-out rows of the training file, files of other instructions, and plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...distil.judging.answers import Writing
from ...distil.judging.exam import WINDOW, Exam
from ...distil.judging.tokens import Causal, answer_tokens, most_tokens, prompt_tokens
from ...tasks.fetch import find_own
from ...tasks.instruct import TEMPLATE, Instruct
from ...tasks.instructions import Row, read_rows, read_text

PLAIN = 200_000  # characters of the plain text that are read, so judging stays short


def held_out(rows: Sequence[Row], count: int) -> list[Row]:
    """The last `count` rows, without those whose prompt is asked before them: a run trains on that prompt."""
    if not 0 < count < len(rows):
        raise ValueError(f"{count} of {len(rows)} rows cannot be held out: set data.test to fewer, or give more rows")
    asked = {row.prompt for row in rows[:-count]}
    found = [row for row in rows[-count:] if row.prompt not in asked]
    if not found:
        raise ValueError(f"the last {count} rows ask only what is asked before them: give rows with other prompts")
    return found


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
) -> tuple[Exam, dict[str, int]]:
    """The exam for models, and how many rows of each set were left out since one of the models has no room for them.

    `options` are the recipe's for its data: `test`, how many of the last rows are held out, and `template`.
    """
    template = options.get("template", TEMPLATE)
    rows = [row for path in files.texts for row in files.rows(path, template)]
    sets = {"held out": held_out(rows, options["test"])}
    sets |= {name: files.rows(path, template) for name, path in files.questions.items()}
    kept = {name: [row for row in own if fits(row, models, writing)] for name, own in sets.items()}
    window = min([WINDOW, *(most for one in models if (most := most_tokens(one.model)) is not None)])
    exam = Exam(kept, writing, files.plain_text(), window)
    return exam, {name: len(own) - len(kept[name]) for name, own in sets.items()}


def fits(row: Row, models: Sequence[Causal], writing: Writing) -> bool:
    """Whether all models can read the row, and write an answer to it."""
    return all(has_room(one, row, writing) for one in models)


def has_room(one: Causal, row: Row, writing: Writing) -> bool:
    most = most_tokens(one.model)
    if most is None:
        return True
    asked = len(prompt_tokens(one.tokenizer, row.prompt)) + writing.max_tokens
    return max(asked, len(answer_tokens(one.tokenizer, row).ids)) <= most
