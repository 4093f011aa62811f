"""Two tokenisations of one text, aligned on its bytes: a span closes where a token of both ends at the same byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .token_bytes import Ints, TokenBytes, token_bytes


@dataclass(frozen=True)
class Alignment:
    """Spans of one text: half-open ranges of the teacher's tokens, of the student's, and of the text's bytes."""

    teacher: Ints  # [S, 2]
    student: Ints  # [S, 2]
    bytes: Ints  # [S, 2]

    def __len__(self) -> int:
        return len(self.bytes)

    def within(self, teacher_tokens: int, student_tokens: int, most: int | None = None) -> Alignment:
        """The first spans: those inside of so many tokens on either side, and at most `most` of them."""
        fits = (self.teacher[:, 1] <= teacher_tokens) & (self.student[:, 1] <= student_tokens)
        return self.chosen(np.flatnonzero(fits)[:most])

    def inside(self, begin: int, end: int) -> Alignment:
        """The spans wholly inside of a range of bytes, such as an answer."""
        return self.chosen(np.flatnonzero((begin <= self.bytes[:, 0]) & (self.bytes[:, 1] <= end)))

    def chosen(self, which: Ints) -> Alignment:
        return Alignment(self.teacher[which], self.student[which], self.bytes[which])


def align_text(teacher: Any, student: Any, text: str) -> Alignment:
    """The spans of a text under two tokenizers."""
    return align(token_bytes(teacher, text), token_bytes(student, text))


def align(teacher: TokenBytes, student: TokenBytes) -> Alignment:
    """The finest spans that are whole tokens on both sides, [S, 2] each.

    Every byte of the text is in exactly one span, and so is every token that is not special. A span has at least one
    byte, and at least one token of either side. A token that covers nothing is in the span of the byte after it, or in
    the last one if there is none.
    """
    lengths = [int(side.ends[-1]) if len(side.ends) else 0 for side in (teacher, student)]
    if lengths[0] != lengths[1]:
        raise ValueError(f"these are tokens of two texts, of {lengths[0]} and {lengths[1]} bytes: align the same text")
    ends = np.intersect1d(closing(teacher), closing(student), assume_unique=True)
    return Alignment(token_ranges(teacher, ends), token_ranges(student, ends), ranges(0, ends))


def closing(side: TokenBytes) -> Ints:
    """The bytes at which a token ends that covers something."""
    return side.ends[side.begins < side.ends]


def token_ranges(side: TokenBytes, ends: Ints) -> Ints:
    """The tokens of the spans that close at these bytes, [S, 2]."""
    covering = np.flatnonzero(side.begins < side.ends)
    after = covering[np.searchsorted(side.ends[covering], ends)] + 1
    begin, end = side.content
    after[-1:] = end
    return ranges(begin, after)


def ranges(begin: int, ends: Ints) -> Ints:
    """Ranges that follow each other, [S, 2]."""
    begins = np.concatenate([np.array([begin], np.int64), ends])[: len(ends)]
    return np.stack([begins, ends], axis=1)
