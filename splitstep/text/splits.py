"""Which text is held out: whole documents if there are many, else stretches of them."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .documents import Chunk, cut_at

SPLITS: tuple[str, ...] = ("train", "valid", "test")


def split_at(array: np.ndarray, cuts: Sequence[int]) -> dict[str, np.ndarray]:
    """The three splits of an array, in order."""
    return dict(zip(SPLITS, np.split(array, cuts), strict=True))


def ranked_by_class(hashes: Sequence[str], labels: np.ndarray) -> list[np.ndarray]:
    """The rows of each class, those with the lowest hashes first: equal examples stay together wherever possible, and
    unlike random numbers, hashes do not change with the version of a library."""
    rank, classes = np.array(hashes), [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return [rows[np.argsort(rank[rows], kind="stable")] for rows in classes]


def divide_by_class(
    hashes: Sequence[str], labels: np.ndarray, cuts: Callable[[int], Sequence[int]]
) -> list[np.ndarray]:
    """The rows of each part, ascending: the ranked rows of every class are divided where `cuts` says for their
    number."""
    divided = [np.split(rows, cuts(len(rows))) for rows in ranked_by_class(hashes, labels)]
    return [np.sort(np.concatenate(part)) for part in zip(*divided, strict=True)]


MANY = 200  # documents, from which on whole ones are held out: one in twenty for validation, one for the test
SHORTEST, LONGEST = 512, 1 << 16  # characters of a stretch
TWENTIETHS = {18: "valid", 19: "test"}
HELD = tuple(TWENTIETHS.values())


class SplitPart(NamedTuple):
    """A part of a text, its split, and the number of the document that it was cut from."""

    split: str
    chunk: Chunk
    document: int


class Extent(NamedTuple):
    """How much text there is."""

    documents: int
    characters: int

    @property
    def stretch(self) -> int:
        """The characters of a stretch, of which every 20th is held out: there are 200 of them or more."""
        return min(max(self.characters // MANY, SHORTEST), LONGEST)


def extent(parts: Iterable[Chunk]) -> Extent:
    """The documents and characters of a text."""
    documents = characters = 0
    for part in parts:
        documents, characters = documents + part.first, characters + len(part.text)
    return Extent(documents, characters)


def split(parts: Iterable[Chunk], whole: Extent, held: Collection[str] = HELD) -> Iterator[SplitPart]:
    """The parts of all splits, of which those in `held` are held out."""
    names = {number: name for number, name in TWENTIETHS.items() if name in held}
    if whole.documents < MANY and names:
        return split_stretches(parts, whole.stretch, names)
    return split_documents(parts, names)


def split_documents(parts: Iterable[Chunk], names: Mapping[int, str]) -> Iterator[SplitPart]:
    """Whole documents: the split of one depends on its text alone (of a very long one on its first part), so documents
    that are equal are on the same side."""
    name, document = "", 0
    for part in parts:
        if part.first:
            name, document = split_of(part.text, names), document + 1
        yield SplitPart(name, part, document)


def split_of(text: str, names: Mapping[int, str] = TWENTIETHS) -> str:
    """The split of a document, by its hash: 90, 5 and 5 percent; `names` are those of held-out twentieths."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return names.get(number % 20, "train")


def split_stretches(parts: Iterable[Chunk], size: int, names: Mapping[int, str]) -> Iterator[SplitPart]:
    """Stretches that end at blanks; of twenty, those in `names` are held out. A document goes on where its split
    does."""
    number, before, document = 0, "", 0
    for first, text in parts:
        begins, document = first, document + first
        while text:
            end = cut_at(text, size)
            name = names.get(number % 20, "train")
            yield SplitPart(name, Chunk(begins or name != before, text[:end]), document)
            text, begins, before, number = text[end:], False, name, number + 1


def digests(parts: Iterable[Chunk]) -> Iterator[bytes]:
    """A hash of each document's words: how they are spaced makes no difference."""
    found = None
    for part in parts:
        if part.first:
            if found is not None:
                yield found.digest()
            found = hashlib.blake2b(digest_size=16)
        assert found is not None
        found.update(" ".join([*part.text.split(), ""]).encode())
    if found is not None:
        yield found.digest()


def count_copies(training: Iterable[Chunk], held: Mapping[str, Iterable[Chunk]]) -> dict[str, int]:
    """How many documents of each held-out text are also in the training text. Only hashes of the former are kept."""
    counts = {name: Counter(digests(parts)) for name, parts in held.items()}
    sought = {one for found in counts.values() for one in found}
    copied = {one for one in digests(training) if one in sought}
    return {name: sum(found[one] for one in copied) for name, found in counts.items()}
