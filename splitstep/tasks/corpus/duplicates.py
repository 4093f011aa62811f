"""Held-out documents that are also in the training text."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from .documents import Part


def digests(parts: Iterable[Part]) -> Iterator[bytes]:
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


def count_copies(training: Iterable[Part], held: Mapping[str, Iterable[Part]]) -> dict[str, int]:
    """How many documents of each held-out text are also in the training text. Only hashes of the former are kept."""
    counts = {name: Counter(digests(parts)) for name, parts in held.items()}
    sought = {one for found in counts.values() for one in found}
    copied = {one for one in digests(training) if one in sought}
    return {name: sum(found[one] for one in copied) for name, found in counts.items()}
