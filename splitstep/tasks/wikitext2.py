"""WikiText-2: two million words of verified good Wikipedia articles, by words or by bytes."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..text.files import data_root, read
from ..text.splits import SPLITS
from ..text.tokenizers import Words
from .fetch import Source, locate
from .language import Language, WindowOptions
from .measures import WORDS as WORD_MEASURE
from .task import Data, DataNote, task_row

WORDS = {"train": 2_088_628, "valid": 217_646, "test": 245_569}
"""The published number of words in each split, with an <eos> for each line."""
VOCABULARY = 33_278
SOURCE = Source(
    "wikitext-2/wikitext-2-v1.zip",
    "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
    "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
    5_000_000,
)
FILES = ("{}.txt", "wiki.{}.tokens", "{}.articles-shuffled.txt")
"""The names that a split's own file may have, if it is not in the published archive."""


@dataclass(frozen=True, kw_only=True)
class Wikitext2Options(WindowOptions):
    """`level`: "word" gives perplexity per word, with 33,278 words; "byte" gives bits per byte."""

    level: Literal["word", "byte"] = "word"


def load_split(root: Path, split: str) -> tuple[Path, bytes]:
    """A split's file and text: a file of its own if there is one, else the published archive."""
    path = locate(root, SOURCE, *(f"wikitext-2/{name.format(split)}" for name in FILES))
    return path, read(path, member=f"wikitext-2/wiki.{split}.tokens")


def words_of(text: bytes) -> list[str]:
    """The words of each line and an <eos> after it."""
    lines = text.decode().split("\n")
    return [word for line in lines[:-1] for word in (*line.split(), "<eos>")]


def number_words(words: Iterable[str]) -> dict[str, int]:
    """Words by falling frequency, equally frequent ones by spelling, so the order of articles does not matter."""
    counts = Counter(words)
    return {word: number for number, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)))}


def read_wikitext2(options: Wikitext2Options, data: Path | None = None) -> Data:
    found = {split: load_split(data_root(data), split) for split in SPLITS}
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
    files = {split: path.name for split, (path, _) in found.items()}
    source = {"name": "WikiText-2", "level": options.level, "files": files}
    if options.level == "byte":
        return Data({split: np.frombuffer(text, dtype=np.uint8) for split, (_, text) in found.items()}, source)
    tokens = {split: np.array([numbers[w] for w in words[split]], dtype=np.uint16) for split in SPLITS}
    return Data(tokens, source, Words(list(numbers)), measure=WORD_MEASURE)


WIKITEXT2 = task_row(
    "wikitext2", "Language modelling on WikiText-2.", Language, Wikitext2Options,
    DataNote("2.6 million words, 4 MB", "fetched", (SOURCE.name,), SOURCE.url), read_wikitext2,
)  # fmt: skip
