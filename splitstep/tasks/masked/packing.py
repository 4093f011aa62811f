"""Documents in full rows: every piece of a document is [CLS] tokens [SEP], a text of its own. Or, for next-sentence
prediction, pairs of texts: [CLS] A [SEP] B [SEP], where B follows A in half of the cases and else comes from another
document."""

import re
from array import array
from collections.abc import Iterable
from typing import IO, NamedTuple, final

import numpy as np

from ...text.subwords import CLS, MASK, PAD, SEP
from ..task import IGNORED

LEAST = 3  # places that a piece takes: [CLS], a token, [SEP]
BLOCK = 1024  # rows that are written at a time
APART = MASK  # in prepared rows, where nothing is masked yet: the [SEP] between texts that do not follow each other
NEXT, OTHER = 0, 1  # labels, as BERT numbers them
# A sentence ends with a full stop, a question or exclamation mark before a blank, closing quotes and brackets included,
# or before a blank line. Of "e.g. this" it makes two.
END = re.compile(r"[.!?]+[\"'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]+|(?<=\S)(?=[^\S\n]*\n[^\S\n]*\n)")


def row_type(vocab_size: int) -> np.dtype:
    """The smallest type that holds every token."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


@final
class Packer:
    """Writes rows of `length` tokens to a file.

    A document that does not end with its row goes on in the next one as a piece of its own. Where fewer than three
    places are left, no piece fits, and they stay [PAD]. The last row is left out unless it is full.
    """

    def __init__(self, file: IO[bytes], length: int, dtype: np.dtype) -> None:
        self.file, self.length = file, length
        self.block = np.full((BLOCK, length), PAD, dtype)
        self.row, self.at, self.open = 0, 0, False
        self.rows = self.tokens = 0  # in full rows; tokens without [CLS], [SEP] and [PAD]
        self.pairs = self.in_row = self.most = 0  # in all rows, in this one, and the most in any

    def add(self, tokens: np.ndarray, first: bool) -> None:
        """Take tokens of a document: the first ones, or those that follow what came before."""
        if first:
            self.end_piece()
        done = 0
        while done < len(tokens):
            if not self.open:
                self.begin_piece()
            n = min(len(tokens) - done, self.length - 1 - self.at)
            self.block[self.row, self.at : self.at + n] = tokens[done : done + n]
            done, self.at, self.tokens = done + n, self.at + n, self.tokens + n
            if self.at == self.length - 1:
                self.end_piece()

    def room(self) -> int:
        """The places that a new piece can take."""
        self.end_piece()
        if self.length - self.at < LEAST:
            self.end_row()
        return self.length - self.at

    def add_pair(self, one: np.ndarray, two: np.ndarray, between: int) -> None:
        """Take two texts as a piece with the token `between` them. They must fit into the room."""
        assert len(one) + len(two) + 3 <= self.room()
        self.begin_piece()
        for part in (one, [between], two):
            self.block[self.row, self.at : self.at + len(part)] = part
            self.at += len(part)
        self.tokens, self.pairs, self.in_row = self.tokens + len(one) + len(two), self.pairs + 1, self.in_row + 1
        self.most = max(self.most, self.in_row)
        self.end_piece()

    def begin_piece(self) -> None:
        if self.length - self.at < LEAST:
            self.end_row()
        self.block[self.row, self.at] = CLS
        self.at, self.open = self.at + 1, True

    def end_piece(self) -> None:
        if self.open:
            self.block[self.row, self.at] = SEP
            self.at, self.open = self.at + 1, False
        if self.at == self.length:
            self.end_row()

    def end_row(self) -> None:
        self.row, self.at, self.rows, self.in_row = self.row + 1, 0, self.rows + 1, 0
        if self.row == BLOCK:
            self.write()

    def write(self) -> None:
        """Write the rows that are full."""
        self.file.write(np.ascontiguousarray(self.block[: self.row]).data)
        self.block[:] = PAD
        self.row = 0

    def finish(self) -> None:
        """Write what is left in full rows."""
        self.end_piece()
        if self.at > self.length - LEAST:
            self.end_row()
        if self.row:
            self.write()


def piece_numbers(rows: np.ndarray) -> np.ndarray:
    """The number of each token's piece in its row [B, T], from 0; [PAD] is a piece by itself."""
    return np.cumsum((rows == CLS) | (rows == PAD), axis=1) - 1


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, which together are the text: a blank between two belongs to the second."""
    ends = sorted({found.end() for found in END.finditer(text)} - {len(text)})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


class Sentences(NamedTuple):
    """The documents of a split. `tokens`: all of them; `starts`: where each sentence begins there, and the end;
    `documents`: the first sentence of each document, and their number; `sources`: for each document the number of the
    one it was cut from, ascending."""

    tokens: np.ndarray
    starts: np.ndarray
    documents: np.ndarray
    sources: np.ndarray


@final
class SentenceFile:
    """Writes the tokens of documents to a file, and remembers where sentences begin."""

    def __init__(self, file: IO[bytes], dtype: np.dtype) -> None:
        self.file, self.dtype, self.size, self.new = file, dtype, 0, True
        self.starts, self.documents, self.sources = array("q"), array("q"), array("q")

    def add(self, first: bool, source: int, sentences: Iterable[np.ndarray]) -> None:
        """Take the sentences of a part. The first goes on with the last one of the part before."""
        self.new = self.new or first
        for number, ids in enumerate(sentences):
            if not len(ids):
                continue
            if self.new:
                self.documents.append(len(self.starts))
                self.sources.append(source)
            if self.new or number:
                self.starts.append(self.size)
            self.file.write(ids.data)
            self.size, self.new = self.size + len(ids), False

    def read(self) -> Sentences:
        """What was written, once the file is closed."""
        tokens = np.memmap(self.file.name, self.dtype, "r") if self.size else np.empty(0, self.dtype)
        starts, documents = np.array(self.starts), np.array(self.documents)
        return Sentences(
            tokens, np.append(starts, self.size), np.append(documents, len(starts)), np.array(self.sources)
        )


@final
class PairPacker:
    """Writes documents to rows as pairs.

    A piece takes what room its row has. It is cut at the end of one of its sentences, or if it has none, between two
    words; which one is drawn. Then it is drawn whether B stays or is replaced by a stretch of another document, which
    begins with a sentence or, in the other case, with a word inside of one. What was replaced goes on as the next A. So
    all tokens are used once, and some once more as such a stretch. The last sentence of a document has no pair if it
    stands alone.
    """

    def __init__(self, texts: Sentences, packer: Packer, continues: np.ndarray, random: np.random.Generator) -> None:
        self.texts, self.packer, self.continues, self.random = texts, packer, continues, random
        # A drawn B begins with any sentence but the first of its document, as all others do. Before document d there
        # are `before[d]` such sentences.
        self.before = texts.documents - np.arange(len(texts.documents))

    @property
    def possible(self) -> bool:
        """Whether B can be drawn from another document, or no document has two sentences, so none is needed."""
        with_pairs = self.texts.sources[np.diff(self.before) > 0]
        return not len(with_pairs) or bool(with_pairs[0] != with_pairs[-1])

    def add(self, document: int) -> None:
        tokens, starts, documents, _ = self.texts
        begin, end = documents[document : document + 2]
        at, last, further = int(starts[begin]), int(starts[end]), starts[begin + 1 : end]
        while at < last:
            if not len(further) or further[-1] <= at:  # one sentence is left
                self.packer.add(tokens[at:last], True)
                return
            room = self.packer.room()
            until = min(at + room - 3, last)
            cut, inside = self.cut(further, at, until)
            if cut is None:
                until = min(at + room - 2, last)
                self.packer.add(tokens[at:until], True)
            elif self.random.random() < 0.5:
                self.packer.add_pair(tokens[at:cut], tokens[cut:until], SEP)
            else:
                start, stop = self.other(document, inside)
                stop = min(stop, start + room - 3 - (cut - at))
                self.packer.add_pair(tokens[at:cut], tokens[start:stop], APART)
                until = cut
            at = until

    def cut(self, further: np.ndarray, at: int, until: int) -> tuple[int | None, bool]:
        """Where B begins in tokens [at, until), and whether that is inside of a sentence."""
        low, high = np.searchsorted(further, (at + 1, until))
        if low < high:
            return int(further[self.random.integers(low, high)]), False
        return self.word(at + 1, until), True

    def word(self, first: int, last: int) -> int | None:
        """A word's beginning in [first, last), if there is one."""
        words = np.flatnonzero(~self.continues[self.texts.tokens[first:last]])
        return first + int(words[self.random.integers(len(words))]) if len(words) else None

    def other(self, document: int, inside: bool) -> tuple[int, int]:
        """Where a B from another document may begin and has to end: with a sentence, or inside of one."""
        _, starts, documents, sources = self.texts
        own = np.searchsorted(sources, sources[document], "left"), np.searchsorted(sources, sources[document], "right")
        low, high = self.before[own[0]], self.before[own[1]]
        chosen = int(self.random.integers(self.before[-1] - (high - low)))
        chosen += (high - low) if chosen >= low else 0
        found = int(np.searchsorted(self.before, chosen, "right")) - 1
        sentence = chosen + found + 1
        start, stop = int(starts[sentence]), int(starts[sentence + 1])
        within = self.word(start + 1, stop) if inside else None
        return start if within is None else within, int(starts[documents[found + 1]])


class Pairs(NamedTuple):
    """Rows with [SEP] between both texts of a pair, and the texts that tokens belong to, 0 or 1, [B, T]; where each
    pair begins and its label [B, K], `IGNORED` where there are fewer."""

    rows: np.ndarray
    types: np.ndarray
    positions: np.ndarray
    labels: np.ndarray


def read_pairs(rows: np.ndarray, most: int) -> Pairs:
    """What prepared rows [B, T] with at most so many pairs each say."""
    ends = (rows == SEP) | (rows == APART)
    earlier = np.cumsum(ends, axis=1) - ends
    alone = (rows == CLS) | (rows == PAD)
    begins = np.maximum.accumulate(np.where(alone, np.arange(rows.shape[1]), 0), axis=1)  # where a token's piece begins
    types = earlier - np.take_along_axis(earlier, begins, 1)
    middle = ends[:, :-1] & (types[:, :-1] == 0) & (types[:, 1:] == 1)
    row, column = np.nonzero(middle)
    number = np.cumsum(middle, axis=1)[row, column] - 1
    positions, labels = np.zeros((len(rows), most), np.int64), np.full((len(rows), most), IGNORED, np.int64)
    positions[row, number] = begins[row, column]
    labels[row, number] = np.where(rows[row, column] == APART, OTHER, NEXT)
    return Pairs(np.where(rows == APART, SEP, rows), types, positions, labels)
