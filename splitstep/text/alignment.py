"""Two tokenisations of one text, aligned on its bytes: a span closes where a token of both ends at the same byte, or is
a word or a phrase.

Words follow Unicode's rules (UAX #29, default word boundaries): a word is a stretch between two boundaries with a
letter, a number or an emoji in it. Those rules need no dictionary, so each Han or Thai letter is a word.

Phrases are ours: the papers use a parser for English noun and verb phrases. A phrase is a run of words with nothing but
blanks between them; punctuation, symbols and line breaks end it. A run of more than `most` words is cut into as few
phrases as possible, of equal length up to one word, the longer ones first.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import regex

from .token_bytes import Ints, TokenBytes, byte_starts, code_points, utf8

BOUNDARY = regex.compile(r"\b", regex.VERSION1 | regex.WORD)
WORD_LIKE = regex.compile(r"[\p{Alphabetic}\p{N}\p{Extended_Pictographic}\p{Regional_Indicator}]", regex.VERSION1)
BLANKS = regex.compile(r"[\p{Zs}\t]*", regex.VERSION1)
MOST_WORDS = 4

Rule = Callable[[str], Ints]
"""A text -> the byte ranges of its units, [W, 2], rising, none overlapping."""


@dataclass(frozen=True)
class Alignment:
    """Spans of one text: half-open ranges of the teacher's tokens, of the student's, and of the text's bytes."""

    teacher: Ints  # [S, 2]
    student: Ints  # [S, 2]
    bytes: Ints  # [S, 2]

    def __len__(self) -> int:
        return len(self.bytes)

    def within(self, teacher_tokens: int, student_tokens: int, most: int | None = None) -> "Alignment":
        """The first spans: those inside of so many tokens on either side, and at most `most` of them."""
        fits = (self.teacher[:, 1] <= teacher_tokens) & (self.student[:, 1] <= student_tokens)
        return self.chosen(np.flatnonzero(fits)[:most])

    def inside(self, begin: int, end: int) -> "Alignment":
        """The spans wholly inside of a range of bytes, such as an answer."""
        return self.chosen(np.flatnonzero((begin <= self.bytes[:, 0]) & (self.bytes[:, 1] <= end)))

    def chosen(self, which: Ints) -> "Alignment":
        return Alignment(self.teacher[which], self.student[which], self.bytes[which])


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


def words(text: str) -> Ints:
    """The byte ranges of a text's words, [W, 2]."""
    return to_bytes(text, word_characters(text))


def phrases(text: str, most: int = MOST_WORDS) -> Ints:
    """The byte ranges of a text's phrases of at most `most` words, [W, 2]."""
    if most < 1:
        raise ValueError(f"a phrase of at most {most} words is none: give 1 or more")
    found = word_characters(text)
    if not len(found):
        return to_bytes(text, found)
    joined = [
        BLANKS.fullmatch(text, end, begin) is not None for end, begin in zip(found[:-1, 1], found[1:, 0], strict=True)
    ]
    run = np.cumsum([0, *(not join for join in joined)])
    first = cut_runs(run, most)
    last = np.append(first[1:], len(found)) - 1
    return to_bytes(text, np.stack([found[first, 0], found[last, 1]], axis=1))


def cut_runs(run: Ints, most: int) -> Ints:
    """The first word of each phrase, for words numbered by their runs."""
    _, begins, sizes = np.unique(run, return_index=True, return_counts=True)
    parts = -(-sizes // most)
    place = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)  # of a phrase in its run
    size, longer = np.repeat(sizes // parts, parts), np.repeat(sizes % parts, parts)
    return np.repeat(begins, parts) + place * size + np.minimum(place, longer)


def noun_chunks(model: str) -> Rule:
    """The noun chunks that a spaCy model finds, in place of our phrases, such as `noun_chunks("en_core_web_sm")`."""
    try:
        parser: Any = import_module("spacy").load(model)
    except (ImportError, OSError) as error:
        raise ValueError(
            f"noun chunks by {model!r} need spaCy and that model: pip install spacy, python -m spacy download {model}; "
            f"or use splitstep's own phrases, which need neither ({str(error).splitlines()[0]})"
        ) from None

    def chunks(text: str) -> Ints:
        found = [(chunk.start_char, chunk.end_char) for chunk in parser(text).noun_chunks]
        return to_bytes(text, np.array(found, np.int64).reshape(-1, 2))

    return chunks


def word_characters(text: str) -> Ints:
    """The character ranges of a text's words, [W, 2]."""
    cuts = [found.start() for found in BOUNDARY.finditer(text)]
    found = [(begin, end) for begin, end in pairwise(cuts) if WORD_LIKE.search(text, begin, end)]
    return np.array(found, np.int64).reshape(-1, 2)


def to_bytes(text: str, characters: Ints) -> Ints:
    """Ranges of characters as ranges of bytes."""
    utf8(text)  # refused here with what to do, if it has no bytes
    return byte_starts(code_points(text))[characters]


def tokens_of(units: Ints, tokens: TokenBytes) -> Ints:
    """The range of tokens that belongs to each unit (word or phrase), [W, 2]; an empty one (0, 0) if there is none.

    A token belongs to the unit with which it shares most bytes, and to the first of those in a tie. So `Ġworld` and
    `world.` belong to `world`. A token that shares no byte with a unit belongs to none, but one that covers nothing
    and stands between two tokens of a unit is in its range. A unit all of whose tokens belong to others has no range.
    """
    token, unit = owners(units, tokens)
    found = np.zeros((len(units), 2), np.int64)
    found[unit[::-1], 0] = token[::-1]  # the first token of each unit is written last
    found[unit, 1] = token + 1
    return found


def owners(units: Ints, tokens: TokenBytes) -> tuple[Ints, Ints]:
    """The tokens that belong to a unit, rising, and their units."""
    begins, ends = tokens.begins, tokens.ends
    low = np.searchsorted(units[:, 1], begins, side="right")  # the first unit that ends after the token begins
    high = np.searchsorted(units[:, 0], ends, side="left")  # the first one that begins at its end or later
    count = np.where(begins < ends, np.maximum(high - low, 0), 0)
    token = np.repeat(np.arange(len(ends)), count)
    unit = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    shared = np.minimum(units[unit, 1], ends[token]) - np.maximum(units[unit, 0], begins[token])
    order = np.lexsort((unit, -shared, token))
    first = order[np.flatnonzero(np.diff(token[order], prepend=-1))]
    return token[first], unit[first]


def unit_spans(units: Ints, teacher: TokenBytes, student: TokenBytes) -> Alignment:
    """Words or phrases as spans: those that have tokens on both sides."""
    sides = tokens_of(units, teacher), tokens_of(units, student)
    kept = (sides[0][:, 0] < sides[0][:, 1]) & (sides[1][:, 0] < sides[1][:, 1])
    return Alignment(sides[0][kept], sides[1][kept], units[kept])


def text_spans(
    text: str, teacher: TokenBytes, student: TokenBytes, kinds: Iterable[str], phrase_rule: Rule = phrases
) -> dict[str, Alignment]:
    """The spans of a text by kind: `aligned` (the finest that are whole tokens on both sides), `words`, `phrases`."""
    rules: dict[str, Callable[[], Alignment]] = {
        "aligned": lambda: align(teacher, student),
        "words": lambda: unit_spans(words(text), teacher, student),
        "phrases": lambda: unit_spans(phrase_rule(text), teacher, student),
    }
    wanted = list(kinds)
    if unknown := [kind for kind in wanted if kind not in rules]:
        raise ValueError(f"there are no spans of the kind {unknown[0]!r}: choose from {', '.join(rules)}")
    return {kind: rules[kind]() for kind in wanted}
