"""Which tokens a model has to fill in: as many in every row, so that all batches have one shape."""

from typing import Literal, NamedTuple

import numpy as np

from ...text.subwords import MASK, SPECIAL
from ..task import IGNORED

Unit = Literal["tokens", "words"]
FIRST = len(SPECIAL)  # the first token that is not special
MASKED, RANDOM = 0.8, 0.1  # of the chosen tokens: become [MASK], become another token; the rest stays


class Masked(NamedTuple):
    """Rows with some tokens replaced [B, T], where those stood [B, M], ascending, and what they were [B, M]; a position
    whose label is `IGNORED` does not count."""

    tokens: np.ndarray
    positions: np.ndarray
    labels: np.ndarray


class Choice(NamedTuple):
    """How tokens are chosen: `masks` of each row, one by one or, if `continues` says which subwords go on with a word,
    by whole words; `vocab_size` for random ones."""

    masks: int
    vocab_size: int
    continues: np.ndarray | None = None


def mask(rows: np.ndarray, choice: Choice, random: np.random.Generator) -> Masked:
    """Rows [B, T] with tokens masked; special tokens never are."""
    rows = rows.astype(np.int64)
    keys = random.random(rows.shape, np.float32)
    if choice.continues is None:
        keys[rows < FIRST] = 2.0
        positions = np.sort(np.argpartition(keys, choice.masks - 1, axis=1)[:, : choice.masks], axis=1)
        chosen = np.take_along_axis(keys, positions, 1) < 1
    else:
        positions, chosen = whole_words(rows, choice.masks, choice.continues, keys)
    labels = np.take_along_axis(rows, positions, 1)
    lot, others = random.random(labels.shape), random.integers(FIRST, choice.vocab_size, labels.shape)
    new = np.where(lot < MASKED, MASK, np.where(lot < MASKED + RANDOM, others, labels))
    np.put_along_axis(rows, positions, np.where(chosen, new, labels), 1)
    return Masked(rows, positions, np.where(chosen, labels, IGNORED))


def whole_words(rows: np.ndarray, count: int, continues: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [B, count] of tokens of random words, ascending, and which of them count: the last word is left out
    if it does not fit."""
    words = np.cumsum(~continues[rows], axis=1)  # special tokens are words by themselves
    first = np.maximum.accumulate(np.where(~continues[rows], np.arange(rows.shape[1]), 0), axis=1)
    keys = np.where(rows < FIRST, 2.0, np.take_along_axis(keys, first, 1))
    order = np.argsort(keys, axis=1, kind="stable")
    found, after = order[:, :count], order[:, count : count + 1]
    cut = np.take_along_axis(words, found, 1) == np.take_along_axis(words, after, 1)
    chosen = ~cut & (np.take_along_axis(keys, found, 1) < 1)
    ascending = np.argsort(found, axis=1)
    return np.take_along_axis(found, ascending, 1), np.take_along_axis(chosen, ascending, 1)
