"""Which text is held out: whole documents if there are many, else stretches of them."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from .documents import Part, cut_at

MANY = 200  # documents, from which on whole ones are held out: one in twenty for validation, one for the test
SHORTEST, LONGEST = 512, 1 << 16  # characters of a stretch
TWENTIETHS = {18: "valid", 19: "test"}
HELD = tuple(TWENTIETHS.values())


class Extent(NamedTuple):
    """How much text there is."""

    documents: int
    characters: int

    @property
    def stretch(self) -> int:
        """The characters of a stretch, of which every 20th is held out: there are 200 of them or more."""
        return min(max(self.characters // MANY, SHORTEST), LONGEST)


def extent(parts: Iterable[Part]) -> Extent:
    """The documents and characters of a text."""
    documents = characters = 0
    for part in parts:
        documents, characters = documents + part.first, characters + len(part.text)
    return Extent(documents, characters)


def split(parts: Iterable[Part], whole: Extent, held: Collection[str] = HELD) -> Iterator[tuple[str, Part]]:
    """Each part with its split, of which those in `held` are held out. A document's split depends on its text alone (of
    a very long one on its first part), so documents that are equal are on the same side."""
    names = {number: name for number, name in TWENTIETHS.items() if name in held}
    if whole.documents < MANY and names:
        yield from split_stretches(parts, whole.stretch, names)
        return
    name = ""
    for part in parts:
        name = split_of(part.text, names) if part.first else name
        yield name, part


def split_numbered(
    parts: Iterable[Part], whole: Extent, held: Collection[str] = HELD
) -> Iterator[tuple[str, Part, int]]:
    """As `split`, with the number of the document that a part was cut from."""
    number = 0

    def counted() -> Iterator[Part]:
        nonlocal number
        for part in parts:
            number += part.first
            yield part

    for name, part in split(counted(), whole, held):  # which reads nothing ahead
        yield name, part, number


def split_of(text: str, names: Mapping[int, str] = TWENTIETHS) -> str:
    """The split of a document, by its hash: 90, 5 and 5 percent; `names` are those of held-out twentieths."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return names.get(number % 20, "train")


def split_stretches(parts: Iterable[Part], size: int, names: Mapping[int, str]) -> Iterator[tuple[str, Part]]:
    """Stretches that end at blanks; of twenty, those in `names` are held out. A document goes on where its split
    does."""
    number, before = 0, ""
    for first, text in parts:
        begins = first
        while text:
            end = cut_at(text, size)
            name = names.get(number % 20, "train")
            yield name, Part(begins or name != before, text[:end])
            text, begins, before, number = text[end:], False, name, number + 1
