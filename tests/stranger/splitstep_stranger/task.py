"""Is the number of ones in a row of bits odd? The rows are those of a file of the user's own, one a line."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from splitstep.tasks.sequences import SequenceTask, TokenRows
from splitstep.tasks.task import Data
from splitstep.text.tokenizers import word_tokenizer

BIT = 2  # the number of the token 0; PAD and CLS come before it
SPLITS = ("valid", "test", "train", "train", "train")  # of five lines


@dataclass(frozen=True)
class ParityOptions:
    """`path`: the file, such as bits.txt."""

    path: str

    def __post_init__(self) -> None:
        if not self.path.endswith(".txt"):
            raise ValueError(f"path is {self.path!r}: name a text file with a row of bits on each line")


class Parity(SequenceTask):
    """Rows of bits in two classes."""

    name = "parity"
    Options: ClassVar[type] = ParityOptions

    def __init__(self, options: ParityOptions, data: Path | None = None) -> None:
        lines = ((data or Path()) / options.path).read_text().split()
        rows = {split: rows_of([x for i, x in enumerate(lines) if SPLITS[i % 5] == split]) for split in SPLITS}
        tokenizer = word_tokenizer(("[PAD]", "[CLS]", "0", "1"))
        longest = max(map(len, lines))
        source = {"name": "parity", "path": options.path}
        found = Data(rows, source, tokenizer, ("even", "odd"), more={"buckets": (longest + 1,)})
        super().__init__(self.name, options, found)


def rows_of(lines: list[str]) -> TokenRows:
    """Lines of bits as tokens, and whether the ones of each are odd."""
    tokens = np.array([BIT + int(bit) for line in lines for bit in line], np.uint8)
    ends = np.cumsum([0, *map(len, lines)])
    return TokenRows(tokens, ends, np.array([line.count("1") % 2 for line in lines], np.uint8))
