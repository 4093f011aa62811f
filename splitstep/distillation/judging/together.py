"""Two models that read the same rows: the places where both have read the same bytes, and what they show there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...tasks.instructions import Row
from ..alignment import align
from ..offsets import token_bytes, utf8
from .room import rows_to_read
from .tokens import Causal, Scored, check_length, device_of, padded


class Read(NamedTuple):
    """The tokens of one model for a row, and the places, in order, where both models have read the same bytes and what
    follows is of the answer."""

    ids: list[int]
    places: list[int]


def read_by_both(teacher: Any, student: Any, row: Row) -> tuple[Read, Read]:
    """A row under two tokenizers. With one tokenizer the places are all that predict a token of the answer."""
    text, begin = row.prompt + row.answer, len(utf8(row.prompt))
    sides = token_bytes(teacher, text), token_bytes(student, text)
    spans = align(*sides)
    ends = spans.bytes[:, 1]
    inside = np.flatnonzero((begin <= ends) & (ends < len(utf8(text))))
    places = [(ranges[inside, 1] - 1).tolist() for ranges in (spans.teacher, spans.student)]
    return Read(sides[0].ids.tolist(), places[0]), Read(sides[1].ids.tolist(), places[1])


def same_tokens(teacher: Any, student: Any) -> bool:
    """Whether two tokenizers have the same tokens under the same numbers."""
    return teacher is student or teacher.get_vocab() == student.get_vocab()


class Both(NamedTuple):
    """Two models, and rows as both read them, the longest first."""

    teacher: Causal
    student: Causal
    reads: list[tuple[Read, Read]]


def read_together(teacher: Causal, student: Causal, rows: Sequence[Row]) -> Both:
    """The rows as two models read them, without those that have no place to compare."""
    found = [read_by_both(teacher.tokenizer, student.tokenizer, row) for row in rows]
    for side, model in enumerate((teacher.model, student.model)):
        check_length(model, [Scored(one[side].ids, [], 0) for one in found])
    return Both(teacher, student, sorted((one for one in found if one[0].places), key=lambda one: -len(one[0].ids)))


def batches_of_both(both: Both, batch: int | None, states: bool = False) -> Iterator[tuple[Any, Tensor, Any, Tensor]]:
    """The outputs of teacher and student for batches of rows, each with the rows and places [P, 2] to look at."""
    teacher, student = both.teacher.model, both.student.model
    left = both.reads
    while left:
        size = batch or rows_to_read((teacher, student), max(len(side.ids) for pair in left for side in pair))
        ours, theirs = zip(*left[:size], strict=True)
        yield *outputs(teacher, ours, states), *outputs(student, theirs, states)
        left = left[size:]


def outputs(model: Any, reads: Sequence[Read], states: bool) -> tuple[Any, Tensor]:
    """What the model shows of these tokens, and the places as (row, token), [P, 2]."""
    batch = padded([Scored(one.ids, [False] * len(one.ids), 0) for one in reads], device_of(model))
    out = model(input_ids=batch.ids, attention_mask=batch.real, use_cache=False, output_hidden_states=states)
    places = [(row, place) for row, one in enumerate(reads) for place in one.places]
    return out, torch.tensor(places, device=batch.ids.device)


def at(values: Tensor, places: Tensor) -> Tensor:
    """The values [B, T, ...] at these places, [P, ...]."""
    return values[places[:, 0], places[:, 1]]
