"""Language modelling: one array of tokens a split, cut into windows."""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from splitstep.kernels.loss import shifted
from splitstep.support.words import counted
from splitstep.tasks import sampler
from splitstep.tasks.options import at_least
from splitstep.tasks.task import (
    BITS_PER_BYTE,
    IGNORED,
    PERPLEXITY,
    Batch,
    Task,
    check_split,
    check_totals,
    score_tokens,
)

BYTES = 256
"""Tokens of text that is read byte by byte."""


def check_window(length: int, stride: int | None) -> None:
    """Refuse windows that cannot score every token once."""
    at_least("length", length, 2)
    at_least("stride", stride, 1)
    if stride is not None and stride >= length:
        raise ValueError(
            f"option stride is {stride} and length {length}; a window's first token has nothing before it to be "
            f"predicted from, so stride must be below length; type e.g. stride: {length // 2}"
        )


def spans(n: int, length: int, stride: int) -> Iterator[tuple[int, int]]:
    """Windows (start, first) over n tokens: [start, start + length), of which those from `first` on are scored.

    Each token but the very first is scored once. The last window is moved back to end with the tokens, so that all
    have one shape.
    """
    yield 0, 1
    done = min(length, n)
    while done < n:
        end = min(done + stride, n)
        yield end - length, done - (end - length)
        done = end


def split_bytes(data: np.ndarray) -> dict[str, np.ndarray]:
    """A text's first nine tenths for training, its last two twentieths for validation and test."""
    held = len(data) // 20
    return dict(zip(("train", "valid", "test"), np.split(data, [len(data) - 2 * held, len(data) - held]), strict=True))


class Language(Task):
    """A language-modelling task: predict each token from those before it in its window."""

    model: ClassVar[str] = "causal"

    def _load(
        self,
        tokens: Mapping[str, np.ndarray],
        length: int,
        stride: int | None,
        valid: int | None,
        words: Sequence[str] = (),
    ) -> None:
        """Take the tokens, bytes or numbers of `words`; `valid` limits the validation tokens, never the test's."""
        self._whole = {split: len(array) for split, array in tokens.items()}
        self._tokens = dict(tokens)
        self._tokens["valid"] = tokens["valid"][:valid]
        self._words, self._length = tuple(words), length
        self._stride = length // 2 if stride is None else stride
        for split, array in self._tokens.items():
            if len(array) < (length if split == "train" else 2):
                raise ValueError(
                    f'task "{self.name}": the {split} split has {counted(len(array), "token")}, too few for windows of '
                    f"{length}; give more text or a smaller length"
                )

    @property
    @final
    def shape(self) -> dict[str, int]:
        return {"vocab_size": len(self._words) or BYTES, "max_length": self._length}

    @final
    def encode(self, text: str) -> list[int]:
        """Text as tokens; a word that the data does not have is <unk>."""
        if not self._words:
            return list(text.encode())
        numbers = {word: number for number, word in enumerate(self._words)}
        return [numbers.get(word, numbers["<unk>"]) for word in text.split()]

    @final
    def decode(self, ids: Sequence[int]) -> str:
        """Tokens as text."""
        if not self._words:
            return bytes(ids).decode(errors="replace")
        return " ".join(self._words[number] for number in ids).replace("<eos>", "\n")

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
        """Overlapping windows in order, labelled such that each token but the first is scored once."""
        check_split(self, split)
        at_least("size", size, 1)
        every = np.array(list(spans(len(self._tokens[split]), self._length, self._stride)))
        for rows in np.split(every, range(size, len(every), size)):
            ids = self._windows(split, rows[:, 0])
            scored = torch.arange(ids.shape[1]) >= torch.from_numpy(rows[:, 1:])
            yield {"input_ids": ids, "labels": torch.where(scored, ids, IGNORED)}

    def _windows(self, split: str, begin: np.ndarray) -> Tensor:
        tokens = self._tokens[split]
        place = begin[:, None] + np.arange(min(self._length, len(tokens)))
        return torch.from_numpy(tokens[place].astype(np.int64))

    @final
    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """The tokens' sums; logits [B, T, V] align with the inputs, each guessing the next."""
        return score_tokens(logits, shifted(batch["labels"]))

    @final
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Loss in nats a token, the accuracy of the first guess, and the metric."""
        tokens = check_totals(self, totals, "tokens")
        loss = totals["nll"] / tokens
        figures = {"loss": loss, "accuracy": totals["correct"] / tokens}
        if self.metric == BITS_PER_BYTE:
            return figures | {BITS_PER_BYTE.name: loss / math.log(2)}
        return figures | {PERPLEXITY.name: math.exp(min(loss, 700.0))}  # e^700 is about what a float holds

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source(),
            "vocab_size": self.shape["vocab_size"],
            "tokens": {split: len(array) for split, array in self._tokens.items()},
            "tokens_before_limits": self._whole,
            "sha256": {
                split: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
                for split, array in self._tokens.items()
            },
            "windows": {"length": self._length, "stride": self._stride},
        }

    @abstractmethod
    def _source(self) -> dict[str, Any]:
        """Where the text comes from."""
