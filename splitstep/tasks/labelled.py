"""Text classification: sequences of any length, padded to a few lengths only.

Compiled code and CUDA graphs are kept per shape, so that a batch comes from one bucket and is padded to its length.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch

from splitstep.tasks import sampler
from splitstep.tasks.classes import Classes
from splitstep.tasks.options import at_least
from splitstep.tasks.task import Batch, check_split

PAD, CLS = 0, 1
"""The tokens that every vocabulary here begins with; each sequence begins with CLS."""


class Ragged(NamedTuple):
    """N sequences one after another: example i is tokens[offsets[i]:offsets[i + 1]], of class labels[i]."""

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence [N]."""
        return np.diff(self.offsets)

    def part(self, first: int, last: int) -> "Ragged":
        """Examples [first, last)."""
        offsets = self.offsets[first : last + 1]
        return Ragged(self.tokens[offsets[0] : offsets[-1]], offsets - offsets[0], self.labels[first:last])


def check_buckets(buckets: tuple[int, ...]) -> None:
    """Refuse padded lengths that do not grow."""
    if any(low >= high for low, high in zip((0, *buckets), buckets, strict=False)):
        raise ValueError(f"option buckets is {list(buckets)}, and needs growing lengths, e.g. [128, 256, 512]")


class Labelled(Classes):
    """A text-classification task: `input_ids` and `attention_mask` are [B, bucket], `labels` [B]."""

    model: ClassVar[str] = "sequence"

    def _load(self, texts: Mapping[str, Ragged], vocab_size: int, labels: int, buckets: tuple[int, ...]) -> None:
        """Take the sequences; the last bucket must hold the longest and its CLS."""
        self._texts, self._vocab_size, self._labels = dict(texts), vocab_size, labels
        self._buckets = buckets
        longest = 1 + max(int(text.lengths.max()) for text in texts.values())
        if longest > buckets[-1]:
            raise ValueError(
                f'task "{self.name}": the longest example has {longest} tokens and the last of the buckets '
                f"{list(buckets)} holds {buckets[-1]}; nothing is cut here, so add a bucket of at least {longest}"
            )
        self._members = {
            split: [np.flatnonzero(place == number) for number in range(len(buckets))]
            for split, place in ((split, np.searchsorted(buckets, 1 + text.lengths)) for split, text in texts.items())
        }

    @property
    @final
    def shape(self) -> dict[str, int]:
        return {"vocab_size": self._vocab_size, "max_length": self._buckets[-1], "labels": self._labels}

    @property
    @final
    def length(self) -> int:
        """The mean padded length of the training examples: what the device computes, padding included."""
        counts = [len(members) for members in self._members["train"]]
        return round(np.dot(counts, self._buckets) / sum(counts))

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        members = self._members["train"]
        number, place = sampler.bucket(tuple(len(rows) for rows in members), (size,) * len(members), seed, step)
        rows = members[number][sampler.indices(len(members[number]), seed, place, size, stream=number)]
        return self._padded("train", rows, self._buckets[number])

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every example once, bucket by bucket, in order within each; the last batch of a bucket may be smaller."""
        check_split(self, split)
        at_least("size", size, 1)
        for members, width in zip(self._members[split], self._buckets, strict=True):
            for first in range(0, len(members), size):
                yield self._padded(split, members[first : first + size], width)

    def _padded(self, split: str, rows: np.ndarray, width: int) -> Batch:
        text = self._texts[split]
        ids = np.full((len(rows), width), PAD, dtype=np.int64)
        ids[:, 0] = CLS
        ends = 1 + text.lengths[rows]
        for line, row, end in zip(ids, rows, ends, strict=True):
            line[1:end] = text.tokens[text.offsets[row] : text.offsets[row + 1]]
        mask = np.arange(width) < ends[:, None]
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)),
            "labels": torch.from_numpy(text.labels[rows].astype(np.int64)),
        }

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source(),
            "vocab_size": self._vocab_size,
            "examples": {split: len(text.labels) for split, text in self._texts.items()},
            "classes": {
                split: np.bincount(text.labels, minlength=self._labels).tolist() for split, text in self._texts.items()
            },
            "tokens": {split: len(text.tokens) for split, text in self._texts.items()},
            "longest": {split: int(text.lengths.max()) for split, text in self._texts.items()},
            "buckets": {
                split: {str(width): len(rows) for width, rows in zip(self._buckets, members, strict=True)}
                for split, members in self._members.items()
            },
            "sha256": {
                split: hashlib.sha256(np.ascontiguousarray(text.tokens).data).hexdigest()
                for split, text in self._texts.items()
            },
        }

    @abstractmethod
    def _source(self) -> dict[str, Any]:
        """Where the text comes from."""
