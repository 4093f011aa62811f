"""WikiText-2: two million words of good Wikipedia articles, by words or by bytes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np

from splitstep.tasks.fetch import data_root, find, locate, read
from splitstep.tasks.language import Language, check_window
from splitstep.tasks.options import at_least
from splitstep.tasks.task import BITS_PER_BYTE, PERPLEXITY, SPLITS

WORDS = {"train": 2_088_628, "valid": 217_646, "test": 245_569}
"""Words of each split as published, an <eos> for each line included."""
VOCABULARY = 33_278
ARCHIVE = "wikitext-2/wikitext-2-v1.zip"


@dataclass(frozen=True)
class Wikitext2Options:
    """`level`: "word" gives perplexity a word over 33,278 words, "byte" bits a byte."""

    level: Literal["word", "byte"] = "word"
    length: int = 256
    stride: int | None = None
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        check_window(self.length, self.stride)
        at_least("valid_limit", self.valid_limit, 2)


def load_split(root: Path, split: str) -> tuple[Path, bytes]:
    """A split's file and text: files of their own if they are there, else the published archive."""
    own = (f"{split}.txt", f"{split}.txt.xz", f"wiki.{split}.tokens", f"{split}.articles-shuffled.txt.xz")
    path = find(root, *(f"wikitext-2/{name}" for name in own)) or locate(root, ARCHIVE)
    return path, read(path, member=f"wikitext-2/wiki.{split}.tokens")


def words_of(text: bytes) -> list[str]:
    """The words of each line and an <eos> after it."""
    lines = text.decode().split("\n")
    return [word for line in lines[:-1] for word in (*line.split(), "<eos>")]


def number_words(words: Iterable[str]) -> dict[str, int]:
    """Words by falling frequency, equals by spelling, so that the order of articles does not matter."""
    counts = Counter(words)
    return {word: number for number, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)))}


@final
class Wikitext2(Language):
    """Language modelling on WikiText-2."""

    name: ClassVar[str] = "wikitext2"
    Options: ClassVar[type] = Wikitext2Options
    metric = PERPLEXITY

    def __init__(self, options: Wikitext2Options, data: Path | None = None) -> None:
        self._level = options.level
        found = {split: load_split(data_root(data), split) for split in SPLITS}
        self._files = {split: path.name for split, (path, _) in found.items()}
        words = {split: words_of(text) for split, (_, text) in found.items()}
        for split, (path, _) in found.items():
            if len(words[split]) != WORDS[split]:
                raise ValueError(
                    f"{path} has {len(words[split]):,} words with an <eos> for each line, and WikiText-2 has "
                    f"{WORDS[split]:,} in {split}. Put the published file there (not the raw one), or remove it"
                )
        numbers = number_words(words["train"])
        strange = {word for split in SPLITS for word in words[split]} - numbers.keys()
        if len(numbers) != VOCABULARY or strange:
            raise ValueError(
                f"{found['train'][0]} has {len(numbers):,} different words and lacks {len(strange)} of the other "
                f"splits; WikiText-2 has {VOCABULARY:,} and lacks none. Put the published files there, not the raw ones"
            )
        if options.level == "byte":
            self.metric = BITS_PER_BYTE
            tokens = {split: np.frombuffer(text, dtype=np.uint8) for split, (_, text) in found.items()}
        else:
            tokens = {split: np.array([numbers[w] for w in words[split]], dtype=np.uint16) for split in SPLITS}
        vocabulary = list(numbers) if options.level == "word" else []
        self._load(tokens, options.length, options.stride, options.valid_limit, vocabulary)

    def _source(self) -> dict[str, Any]:
        return {"name": "WikiText-2", "level": self._level, "files": self._files}
