"""Buckets: sequences of many lengths in batches of a few shapes.

Compiled code and CUDA graphs are kept per shape, so a batch comes from one bucket and is padded to its width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import final

import numpy as np

from . import sampler

MULTIPLE = 4
"""Widths are multiples of this: with 8 there was a quarter more padding on Multi30k and Tatoeba, with 2 no less."""


@final
class Buckets:
    """The rows of each split, grouped by the smallest padded width that holds them."""

    def __init__(self, widths: tuple[int, ...], lengths: Mapping[str, np.ndarray]) -> None:
        self.widths = widths
        self.rows = {
            split: [np.flatnonzero(bucket == number) for number in range(len(widths))]
            for split, bucket in ((split, np.searchsorted(widths, found)) for split, found in lengths.items())
        }

    def draw(self, sizes: Sequence[int], seed: int, step: int) -> tuple[np.ndarray, int]:
        """The training rows of a step and their width; `sizes` are the rows of a batch in each of the first buckets."""
        rows = self.rows["train"][: len(sizes)]
        bucket, number = sampler.bucket(tuple(map(len, rows)), tuple(sizes), seed, step)
        chosen = sampler.indices(len(rows[bucket]), seed, number, sizes[bucket], stream=bucket)
        return rows[bucket][chosen], self.widths[bucket]

    def batches(self, split: str, size_of: Callable[[int], int]) -> Iterator[tuple[np.ndarray, int]]:
        """Every row once, with its width, bucket by bucket and in order; `size_of(width)` is the rows of a batch."""
        for rows, width in zip(self.rows[split], self.widths, strict=True):
            size = size_of(width)
            for first in range(0, len(rows), size):
                yield rows[first : first + size], width

    def counts(self, split: str) -> list[int]:
        """How many rows of a split each bucket holds."""
        return [len(rows) for rows in self.rows[split]]

    def padded_tokens(self, split: str) -> int:
        """The tokens of all rows of a split, padding included."""
        return int(np.dot(self.counts(split), self.widths))

    @property
    def mean_width(self) -> int:
        """The mean padded length of the training rows, which is what the device computes."""
        return round(self.padded_tokens("train") / sum(self.counts("train")))

    def describe(self) -> dict[str, dict[str, int]]:
        """Rows by split and width, fit for JSON."""
        return {split: dict(zip(map(str, self.widths), self.counts(split), strict=True)) for split in self.rows}


def check_buckets(buckets: tuple[int, ...]) -> None:
    """Refuse padded lengths that do not increase."""
    if any(low >= high for low, high in zip((0, *buckets), buckets, strict=False)):
        raise ValueError(f"option buckets is {list(buckets)}, and needs increasing lengths, e.g. [128, 256, 512]")


def padded(
    tokens: np.ndarray, offsets: np.ndarray, rows: np.ndarray, width: int, fill: int
) -> tuple[np.ndarray, np.ndarray]:
    """The sequences tokens[offsets[i]:offsets[i + 1]] of some rows i, padded [B, width], and a mask of real tokens."""
    where, mask = places(offsets, rows, width)
    return np.where(mask, tokens[where].astype(np.int64), fill), mask


def places(offsets: np.ndarray, rows: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the tokens of some rows are, [B, width], and a mask of real ones; padding has the place of the last."""
    where, last = offsets[rows, None] + np.arange(width), offsets[rows + 1, None]
    return np.minimum(where, last - 1), where < last


def choose_widths(lengths: np.ndarray, count: int) -> tuple[int, ...]:
    """The widths, at most `count`, that hold all lengths with the least padding (dynamic programming)."""
    units = -(-lengths // MULTIPLE)
    histogram = np.bincount(units)
    n = len(histogram)  # widths 1 .. n - 1, in units
    below = np.cumsum(histogram)  # sequences of at most this many units
    cost = (below * np.arange(n)).astype(np.float64)  # of one bucket up to here
    before = [np.zeros(n, dtype=np.int64)]
    for _ in range(1, min(count, n - 1)):
        options = cost[:, None] + (below[None, :] - below[:, None]) * np.arange(n)[None, :]
        options[np.tril_indices(n)] = np.inf
        options[0] = below * np.arange(n)
        before.append(options.argmin(0))
        cost = options.min(0)
    widths, end = [], n - 1
    for previous in reversed(before):
        widths.append(end * MULTIPLE)
        end = int(previous[end])
        if end == 0:
            break
    return tuple(reversed(widths))


def rows_of(size: int, width: int) -> int:
    """Rows in a batch of at most `size` padded tokens.

    Many rows are rounded down to a multiple of a power of two, by less than 2 %, so processes and accumulated parts can
    share them equally.
    """
    rows = size // width
    if rows < 1:
        raise ValueError(
            f"a batch of {size} tokens holds no pair of {width} tokens; batch counts padded tokens here: use at least "
            f"{width}, e.g. 4096"
        )
    unit = 1 << max(0, rows.bit_length() - 7)
    return rows - rows % unit
