"""Pairs of texts for next-sentence prediction: [CLS] A [SEP] B [SEP], where B follows A in half of the cases and else
comes from another document."""

from typing import NamedTuple, final

import numpy as np

from ...text.subwords import MASK, SEP
from ..task import IGNORED
from .packing import Packer, piece_begins
from .sentences import Sentences

APART = MASK  # in prepared rows, where nothing is masked yet: the [SEP] between texts that do not follow each other
NEXT, OTHER = 0, 1  # labels, as BERT numbers them


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

    def add_all(self) -> None:
        for document in range(len(self.texts.sources)):
            self.add(document)

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
    begins = piece_begins(rows)
    types = earlier - np.take_along_axis(earlier, begins, 1)
    middle = ends[:, :-1] & (types[:, :-1] == 0) & (types[:, 1:] == 1)
    row, column = np.nonzero(middle)
    number = np.cumsum(middle, axis=1)[row, column] - 1
    positions, labels = np.zeros((len(rows), most), np.int64), np.full((len(rows), most), IGNORED, np.int64)
    positions[row, number] = begins[row, column]
    labels[row, number] = np.where(rows[row, column] == APART, OTHER, NEXT)
    return Pairs(np.where(rows == APART, SEP, rows), types, positions, labels)
