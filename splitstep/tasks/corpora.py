"""Language modelling: one array of tokens per split, cut into windows. The texts are the source of Python's library,
which every machine has, enwik8, and WikiText-2."""

import hashlib
import platform
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np

from ..options import at_least
from ..support.documents import decode
from ..support.words import counted
from ..text.documents import library_files
from ..text.files import Content, Source, data_root, locate, read
from ..text.splits import SPLITS, split_at
from ..text.tokenizers import (
    BYTE_PADDING,
    WORD_PADDING,
    Vocabulary,
    byte_tokenizer,
    save_tokenizer,
    word_tokenizer,
)
from .batching import Chosen, Windows
from .measures import BYTES, WORDS
from .task import IGNORED, Arrays, Batch, Data, DataNote, Task, hashes, task_row

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """`length`, `stride`: tokens in a window, and from one held-out window to the next (by default half a window);
    `valid_limit`, `test_limit`: the most tokens of a held-out split, for a quick look; the first of it are taken."""

    length: int = 256
    stride: int | None = None
    valid_limit: int | None = None
    test_limit: int | None = None

    def __post_init__(self) -> None:
        at_least("length", self.length, 2)
        at_least("stride", self.stride, 1)
        if self.stride is not None and self.stride >= self.length:
            raise ValueError(
                f"option stride is {self.stride} and length {self.length}; a window's first token has nothing before "
                f"it to be predicted from, so stride must be below length; type e.g. stride: {self.length // 2}"
            )
        at_least("valid_limit", self.valid_limit, 2)
        at_least("test_limit", self.test_limit, 2)


@final
class Language(Task):
    """A language-modelling task: predict each token from those before it in its window.

    Of the data, examples are arrays of tokens, and the reader is their `Vocabulary`; without one they are bytes.
    """

    model: ClassVar[str] = "causal"

    def __init__(self, name: str, options: WindowOptions, data: Data) -> None:
        self.name, self.options, self.data = name, options, data
        limits = {"valid": options.valid_limit, "test": options.test_limit}
        self.arrays: Arrays = {split: array[: limits.get(split)] for split, array in data.splits.items()}
        self.vocabulary: Vocabulary = data.reader or Vocabulary(byte_tokenizer(), BYTE_PADDING)
        self.measure = data.measure or BYTES
        self.stride = options.length // 2 if options.stride is None else options.stride
        sizes = {split: len(array) for split, array in self.arrays.items()}
        self.batching = Windows(sizes, options.length, self.stride)
        for split, size in sizes.items():
            if size < (options.length if split == "train" else 2):
                raise ValueError(
                    f'task "{name}": the {split} split has {counted(size, "token")}, too few for windows of '
                    f"{options.length}; give more text or a smaller length, such as data.length={max(1, size // 2)}"
                )

    @property
    def shape(self) -> dict[str, int]:
        return {"vocab_size": self.vocabulary.size, "max_length": self.length}

    def encode(self, text: str) -> list[int]:
        """Text as tokens."""
        return self.vocabulary.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text."""
        return self.vocabulary.decode(ids)

    def save_with(self, folder: Path) -> None:
        """A tokenizer that does as `encode` and `decode`."""
        entries = {"model_max_length": self.length, **self.vocabulary.entries}
        save_tokenizer(folder, self.vocabulary.tokenizer, entries)

    def collate(self, chosen: Chosen) -> Arrays:
        """Windows; of held-out ones, labels say which tokens are scored: each but the first of all once."""
        held = chosen.seed is None
        begin = chosen.rows[:, 0] if held else chosen.rows
        positions = np.arange(chosen.width)
        ids = self.arrays[chosen.split][begin[:, None] + positions].astype(np.int64)
        labels = np.where(positions >= chosen.rows[:, 1:], ids, IGNORED) if held else ids.copy()
        return {"input_ids": ids, "labels": labels}

    def score(self, logits: "Tensor", batch: Batch) -> dict[str, float]:
        """The sums of tokens, and the bytes of subwords."""
        found, counts = super().score(logits, batch), self.vocabulary.byte_counts
        if counts is None:
            return found
        labels = batch["labels"][:, 1:]
        return {**found, "bytes": float(counts[labels[labels != IGNORED].cpu().numpy()].sum())}

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self.data.source,
            "vocab_size": self.vocabulary.size,
            "tokens": {split: len(array) for split, array in self.arrays.items()},
            "tokens_before_limits": {split: len(array) for split, array in self.data.splits.items()},
            "sha256": hashes(self.arrays),
            "windows": {"length": self.length, "stride": self.stride},
        }


TWENTIETHS = {"train": 18, "valid": 1, "test": 1}  # the shares of the splits, if a `limit` is given


@dataclass(frozen=True, kw_only=True)
class StdlibOptions(WindowOptions):
    """`limit`: the most bytes in all, nine tenths for training and a twentieth each for validation and test."""

    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("limit", self.limit, 20 * self.length)


def split_of(path: Path) -> str:
    """The split of a file, by the hash of its name alone: 90, 5 and 5 percent."""
    percent = int.from_bytes(hashlib.sha256(path.as_posix().encode()).digest()[:8], "big") % 100
    return "train" if percent < 90 else "valid" if percent < 95 else "test"


def read_library(options: StdlibOptions, data: Path | None = None) -> Data:
    root = Path(sysconfig.get_path("stdlib"))
    every = library_files(root)
    if not every:
        raise ValueError(
            f'task "stdlib": there are no .py files in {root}; this Python has its library in another form. Use '
            "task text with your own path"
        )
    files = {split: [path for path in every if split_of(path) == split] for split in SPLITS}
    tokens = {}
    for split, paths in files.items():
        content = b"".join((root / path).read_bytes() for path in paths)
        keep = None if options.limit is None else options.limit * TWENTIETHS[split] // 20
        tokens[split] = np.frombuffer(content, dtype=np.uint8)[:keep]
    source = {
        "name": "Python standard library",
        "python": platform.python_version(),
        "files": {split: len(paths) for split, paths in files.items()},
        "limit": options.limit,
    }
    return Data(tokens, source)


ENWIK8_SOURCE = Source(
    "enwik8/enwik8.zip",
    "https://mattmahoney.net/dc/enwik8.zip",
    "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    40_000_000,
)
# Its md5 is the published one, a1fa5ffddb56f4953e226637dabbb36a.
ENWIK8_CONTENT = Content(100_000_000, "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8")
CUTS = (90_000_000, 95_000_000)


@dataclass(frozen=True, kw_only=True)
class Enwik8Options(WindowOptions):
    """Windows of 512 bytes."""

    length: int = 512


def read_enwik8(options: Enwik8Options, data: Path | None = None) -> Data:
    path = locate(data_root(data), ENWIK8_SOURCE, "enwik8/enwik8")
    content = np.frombuffer(read(path, member="enwik8", content=ENWIK8_CONTENT), dtype=np.uint8)
    return Data(split_at(content, CUTS), {"name": "enwik8", "sha256": ENWIK8_CONTENT.sha256})


STDLIB = task_row(
    "stdlib", "Byte-level language modelling on the running Python's standard library.", Language, StdlibOptions,
    DataNote("the Python that runs, some 10 MB", "built in", origin="Python"), read_library,
)  # fmt: skip
ENWIK8 = task_row(
    "enwik8", "Byte-level language modelling on enwik8, split 90 / 5 / 5 million as usual.", Language, Enwik8Options,
    DataNote("100,000,000 bytes, 36 MB packed", "fetched", (ENWIK8_SOURCE.name,), ENWIK8_SOURCE.url), read_enwik8,
)  # fmt: skip


# WikiText-2: two million words of verified good Wikipedia articles, by words or by bytes.
WORD_COUNTS = {"train": 2_088_628, "valid": 217_646, "test": 245_569}
"""The published number of words in each split, with an <eos> for each line."""
WORD_TYPES = 33_278
WIKITEXT2_SOURCE = Source(
    "wikitext-2/wikitext-2-v1.zip",
    "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
    "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
    5_000_000,
)
WIKITEXT2_FILES = ("{}.txt", "wiki.{}.tokens", "{}.articles-shuffled.txt")
"""The names that a split's own file may have, if it is not in the published archive."""


@dataclass(frozen=True, kw_only=True)
class Wikitext2Options(WindowOptions):
    """`level`: "word" gives perplexity per word, with 33,278 words; "byte" gives bits per byte."""

    level: Literal["word", "byte"] = "word"


def read_wikitext2(options: Wikitext2Options, data: Path | None = None) -> Data:
    """Each split is a file of its own, or in the published archive. Words are numbered by falling frequency, equally
    frequent ones by spelling, so the order of articles does not matter."""
    places = {split: [f"wikitext-2/{name.format(split)}" for name in WIKITEXT2_FILES] for split in SPLITS}
    paths = {split: locate(data_root(data), WIKITEXT2_SOURCE, *names) for split, names in places.items()}
    texts = {split: read(path, member=f"wikitext-2/wiki.{split}.tokens") for split, path in paths.items()}
    words = {split: list[str]() for split in SPLITS}  # of each line, and an <eos> after it
    for split, text in texts.items():
        for line in decode(text, str(paths[split])).split("\n")[:-1]:
            words[split] += (*line.split(), "<eos>")
    for split, path in paths.items():
        if len(words[split]) != WORD_COUNTS[split]:
            raise ValueError(
                f"{path} has {len(words[split]):,} words with an <eos> for each line, and WikiText-2 has "
                f"{WORD_COUNTS[split]:,} in {split}. Put the published file there (not the raw one), or remove it"
            )
    counts = Counter(words["train"])
    numbers = {word: i for i, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)))}
    strange = {word for split in SPLITS for word in words[split]} - numbers.keys()
    if len(numbers) != WORD_TYPES or strange:
        raise ValueError(
            f"{paths['train']} has {len(numbers):,} different words and lacks {len(strange)} of the other "
            f"splits; WikiText-2 has {WORD_TYPES:,} and lacks none. Put the published files there, not the raw ones"
        )
    source = {"name": "WikiText-2", "level": options.level, "files": {split: one.name for split, one in paths.items()}}
    if options.level == "byte":
        return Data({split: np.frombuffer(text, dtype=np.uint8) for split, text in texts.items()}, source)
    tokens = {split: np.array([numbers[w] for w in words[split]], dtype=np.uint16) for split in SPLITS}
    return Data(tokens, source, Vocabulary(word_tokenizer(list(numbers)), WORD_PADDING), measure=WORDS)


WIKITEXT2 = task_row(
    "wikitext2", "Language modelling on WikiText-2.", Language, Wikitext2Options,
    DataNote("2.6 million words, 4 MB", "fetched", (WIKITEXT2_SOURCE.name,), WIKITEXT2_SOURCE.url), read_wikitext2,
)  # fmt: skip
