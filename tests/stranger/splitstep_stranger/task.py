"""Is the number of ones in a row of bits odd?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from splitstep.options import at_least
from splitstep.tasks.labelled import Labelled, Ragged
from splitstep.text.tokenizers import word_tokenizer

BIT = 2  # the number of the token 0; PAD and CLS come before it


@dataclass(frozen=True)
class ParityOptions:
    """`length`: bits in a row."""

    length: int = 6

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)


class Parity(Labelled):
    """Rows of bits in two classes."""

    name: ClassVar[str] = "parity"
    Options: ClassVar[type] = ParityOptions

    def __init__(self, options: ParityOptions, data: Path | None = None) -> None:
        texts = dict(zip(("train", "valid", "test"), self._rows(options.length), strict=True))
        source = {"name": "parity, generated", "length": options.length}
        tokenizer = word_tokenizer(("[PAD]", "[CLS]", "0", "1"))
        self._load(texts, tokenizer, BIT + 2, ("even", "odd"), (options.length + 1,), source)

    def _rows(self, length: int) -> Iterator[Ragged]:
        random = np.random.default_rng(0)
        for rows in (200, 50, 50):
            bits = random.integers(2, size=(rows, length))
            tokens = (bits + BIT).astype(np.uint8).ravel()
            yield Ragged(tokens, np.arange(rows + 1) * length, (bits.sum(1) % 2).astype(np.uint8))
