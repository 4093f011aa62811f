"""Tasks on texts of many lengths: batches of a few shapes."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import final

import numpy as np

from ..options import at_least
from .buckets import Buckets
from .task import Batch, Task, check_split


class Bucketed(Task):
    """A task whose examples are padded to one of a few lengths."""

    _buckets: Buckets

    @abstractmethod
    def _padded(self, split: str, rows: np.ndarray, width: int) -> Batch:
        """These rows of a split, padded to a width."""

    @property
    @final
    def length(self) -> int:
        """The mean padded length of the training examples, which is what the device computes."""
        return self._buckets.mean_width

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        return self._padded("train", *self._buckets.draw([size] * len(self._buckets.widths), seed, step))

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every example once, bucket by bucket, in order within each; the last batch of a bucket may be smaller."""
        check_split(self, split)
        at_least("size", size, 1)
        for rows, width in self._buckets.batches(split, lambda width: size):
            yield self._padded(split, rows, width)
