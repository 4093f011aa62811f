"""Is the number of ones in a row of bits odd?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from splitstep.options import at_least
from splitstep.tasks.sequences import SequenceTask, TokenRows
from splitstep.tasks.task import Data
from splitstep.text.tokenizers import word_tokenizer

BIT = 2  # the number of the token 0; PAD and CLS come before it


@dataclass(frozen=True)
class ParityOptions:
    """`length`: bits in a row."""

    length: int = 6

    def __post_init__(self) -> None:
        at_least("length", self.length, 1)


class Parity(SequenceTask):
    """Rows of bits in two classes."""

    name = "parity"
    Options: ClassVar[type] = ParityOptions

    def __init__(self, options: ParityOptions, data: Path | None = None) -> None:
        rows = dict(zip(("train", "valid", "test"), rows_of(options.length), strict=True))
        source = {"name": "parity, generated", "length": options.length}
        tokenizer = word_tokenizer(("[PAD]", "[CLS]", "0", "1"))
        found = Data(rows, source, tokenizer, ("even", "odd"), more={"buckets": (options.length + 1,)})
        super().__init__(self.name, options, found)


def rows_of(length: int) -> Iterator[TokenRows]:
    random = np.random.default_rng(0)
    for count in (200, 50, 50):
        bits = random.integers(2, size=(count, length))
        tokens = (bits + BIT).astype(np.uint8).ravel()
        yield TokenRows(tokens, np.arange(count + 1) * length, (bits.sum(1) % 2).astype(np.uint8))
