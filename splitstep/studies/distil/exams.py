"""The exam of the study: held-out rows of the training file, and files of other instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...distil.judging.answers import Writing
from ...distil.judging.exam import Exam
from ...distil.judging.rows import Row, read_rows
from ...distil.judging.tokens import Causal, answer_tokens, most_tokens, prompt_tokens
from ...tasks.instruct import TEMPLATE


def held_out(rows: Sequence[Row], count: int) -> list[Row]:
    """The last `count` rows, without those whose prompt is asked before them: a run trains on that prompt."""
    if not 0 < count < len(rows):
        raise ValueError(f"{count} of {len(rows)} rows cannot be held out: set data.test to fewer, or give more rows")
    asked = {row.prompt for row in rows[:-count]}
    found = [row for row in rows[-count:] if row.prompt not in asked]
    if not found:
        raise ValueError(f"the last {count} rows ask only what is asked before them: give rows with other prompts")
    return found


def make_exam(
    texts: Sequence[Path],
    questions: Mapping[str, Path],
    models: Sequence[Causal],
    writing: Writing,
    data: Mapping[str, Any],
) -> tuple[Exam, dict[str, int]]:
    """The exam for models, and how many rows of each set were left out since one of the models has no room for them.

    `data` has the recipe's options `test`, how many of the last rows are held out, and `template`.
    """
    template = data.get("template", TEMPLATE)
    rows = [row for path in texts for row in read_rows(path, template)]
    sets = {"held out": held_out(rows, data["test"])}
    sets |= {name: read_rows(path, template) for name, path in questions.items()}
    kept = {name: [row for row in own if fits(row, models, writing)] for name, own in sets.items()}
    return Exam(kept, writing), {name: len(own) - len(kept[name]) for name, own in sets.items()}


def fits(row: Row, models: Sequence[Causal], writing: Writing) -> bool:
    """Whether all models can read the row, and write an answer to it."""
    return all(has_room(one, row, writing) for one in models)


def has_room(one: Causal, row: Row, writing: Writing) -> bool:
    most = most_tokens(one.model)
    if most is None:
        return True
    asked = len(prompt_tokens(one.tokenizer, row.prompt)) + writing.max_tokens
    return max(asked, len(answer_tokens(one.tokenizer, row).ids)) <= most
