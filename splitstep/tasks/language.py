"""Language modelling: one array of tokens per split, cut into windows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from ..kernels.loss import shifted
from ..options import at_least
from ..support.words import counted
from ..text.tokenizers import save_tokenizer
from ..text.vocabulary import Bytes, Vocabulary
from . import sampler
from .cache import Arrays
from .task import BITS_PER_BYTE, IGNORED, PERPLEXITY, Batch, Task, check_split, check_totals, hashes, score_tokens


@dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """`length`, `stride`: tokens in a window, and from one held-out window to the next (by default half a window);
    `valid_limit`: the most validation tokens, for a quick look; the test split is always whole."""

    length: int = 256
    stride: int | None = None
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        at_least("length", self.length, 2)
        at_least("stride", self.stride, 1)
        if self.stride is not None and self.stride >= self.length:
            raise ValueError(
                f"option stride is {self.stride} and length {self.length}; a window's first token has nothing before "
                f"it to be predicted from, so stride must be below length; type e.g. stride: {self.length // 2}"
            )
        at_least("valid_limit", self.valid_limit, 2)


def spans(n: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """Windows (start, first) over n tokens: [start, start + length), of which those from `first` on are scored.

    Each token but the first of all is scored once. The last window is moved back to end with the tokens, so all have
    one shape.
    """
    yield 0, 1
    done = min(length, n)
    while done < n:
        end = min(done + stride, n)
        yield end - length, done - (end - length)
        done = end


class Language(Task):
    """A language-modelling task: predict each token from those before it in its window."""

    model: ClassVar[str] = "causal"
    metric = BITS_PER_BYTE

    def _load(
        self, tokens: Arrays, options: WindowOptions, source: dict[str, Any], vocabulary: Vocabulary | None = None
    ) -> None:
        """Take the tokens; without a vocabulary they are bytes."""
        self._whole = {split: len(array) for split, array in tokens.items()}
        self._tokens = {**tokens, "valid": tokens["valid"][: options.valid_limit]}
        self._vocabulary, self._length, self._source = vocabulary or Bytes(), options.length, source
        self._stride = options.length // 2 if options.stride is None else options.stride
        for split, array in self._tokens.items():
            if len(array) < (self._length if split == "train" else 2):
                raise ValueError(
                    f'task "{self.name}": the {split} split has {counted(len(array), "token")}, too few for windows of '
                    f"{self._length}; give more text or a smaller length"
                )

    @property
    @final
    def shape(self) -> dict[str, int]:
        return {"vocab_size": self._vocabulary.size, "max_length": self._length}

    @final
    def encode(self, text: str) -> list[int]:
        """Text as tokens."""
        return self._vocabulary.encode(text)

    @final
    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text."""
        return self._vocabulary.decode(ids)

    @final
    def save_with(self, folder: Path) -> None:
        """A tokenizer that does as `encode` and `decode`."""
        tokenizer, entries = self._vocabulary.tokenizer()
        save_tokenizer(folder, tokenizer, {"model_max_length": self._length, **entries})

    @property
    @final
    def length(self) -> int:
        """Tokens in a window; all windows have this many."""
        return self._length

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        """`size` windows that begin anywhere in the training tokens."""
        begin = sampler.starts(len(self._tokens["train"]), self._length, seed, step, size)
        ids = self._windows("train", begin)
        return {"input_ids": ids, "labels": ids.clone()}

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Overlapping windows in order, labelled so that each token but the first is scored once."""
        check_split(self, split)
        at_least("size", size, 1)
        every = np.array(list(spans(len(self._tokens[split]), self._length, self._stride)))
        for rows in np.split(every, range(size, len(every), size)):
            ids = self._windows(split, rows[:, 0])
            scored = torch.arange(ids.shape[1]) >= torch.from_numpy(rows[:, 1:])
            yield {"input_ids": ids, "labels": torch.where(scored, ids, IGNORED)}

    def _windows(self, split: str, begin: np.ndarray) -> Tensor:
        tokens = self._tokens[split]
        positions = begin[:, None] + np.arange(min(self._length, len(tokens)))
        return torch.from_numpy(tokens[positions].astype(np.int64))

    @final
    def items(self, batch: Batch) -> int:
        """The number of labels without each window's first, which nothing predicts."""
        return int((batch["labels"][:, 1:] != IGNORED).sum())

    @final
    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """The sums of `score_tokens`, and the bytes of subwords; logits [B, T, V] align with the inputs, and each
        predicts the next token."""
        labels = shifted(batch["labels"])
        found, counts = score_tokens(logits, labels), self._vocabulary.byte_counts
        if counts is None:
            return found
        return {**found, "bytes": float(counts[labels[labels != IGNORED].cpu().numpy()].sum())}

    @final
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Loss in nats per token, the accuracy of the likeliest token, and the metric."""
        tokens = check_totals(self, totals, "tokens")
        loss = totals["nll"] / tokens
        figures = {"loss": loss, "accuracy": totals["correct"] / tokens}
        if self.metric == BITS_PER_BYTE:
            return figures | {BITS_PER_BYTE.name: totals["nll"] / math.log(2) / totals.get("bytes", tokens)}
        return figures | {PERPLEXITY.name: math.exp(min(loss, 700.0))}  # a float holds little more than e^700

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source,
            "vocab_size": self.shape["vocab_size"],
            "tokens": {split: len(array) for split, array in self._tokens.items()},
            "tokens_before_limits": self._whole,
            "sha256": hashes(self._tokens),
            "windows": {"length": self._length, "stride": self._stride},
        }
