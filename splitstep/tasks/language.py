"""Language modelling: one array of tokens per split, cut into windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from ..options import at_least
from ..support.words import counted
from ..text.tokenizers import Bytes, Vocabulary, save_tokenizer
from .batching import Chosen, Windows
from .measures import BYTES
from .task import IGNORED, Arrays, Batch, Data, Task, hashes

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
        self.vocabulary: Vocabulary = data.reader or Bytes()
        self.measure = data.measure or BYTES
        self.stride = options.length // 2 if options.stride is None else options.stride
        sizes = {split: len(array) for split, array in self.arrays.items()}
        self.batching = Windows(sizes, options.length, self.stride)
        for split, size in sizes.items():
            if size < (options.length if split == "train" else 2):
                raise ValueError(
                    f'task "{name}": the {split} split has {counted(size, "token")}, too few for windows of '
                    f"{options.length}; give more text or a smaller length"
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
        tokenizer, entries = self.vocabulary.tokenizer()
        save_tokenizer(folder, tokenizer, {"model_max_length": self.length, **entries})

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
