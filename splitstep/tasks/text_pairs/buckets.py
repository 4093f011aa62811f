"""A few shapes for sequences of many lengths: padded widths, rows in a batch, and which bucket a step draws from."""

from functools import lru_cache

import numpy as np

from splitstep.tasks.sampler import ORDER, generator

MULTIPLE = 4
"""Widths are multiples of this: 8 wasted a quarter more of Multi30k's and Tatoeba's batches, 2 saved nothing."""


def choose_widths(lengths: np.ndarray, count: int) -> tuple[int, ...]:
    """At most `count` widths that hold all lengths with the least padding (dynamic programming over the histogram)."""
    units = -(-lengths // MULTIPLE)
    many = np.bincount(units)
    n = len(many)  # widths 1 .. n - 1, in units
    below = np.cumsum(many)  # sequences of at most so many units
    cost = np.where(np.arange(n) > 0, below * np.arange(n), 0).astype(np.float64)  # one bucket up to here
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

    Many rows are rounded down to a multiple of a power of two, by less than 2 %, so that processes and accumulated
    parts can share them equally.
    """
    rows = size // width
    if rows < 1:
        raise ValueError(
            f"a batch of {size} tokens holds no pair of {width} tokens; batch counts padded tokens here: use at least "
            f"{width}, e.g. 4096"
        )
    unit = 1 << max(0, rows.bit_length() - 7)
    return rows - rows % unit


def place(counts: tuple[int, ...], rows: tuple[int, ...], seed: int, step: int) -> tuple[int, int]:
    """The bucket that a step draws from, and the number of its batch in that bucket's own stream.

    Bucket b is an endless stream of permutations of its n_b pairs cut into batches of r_b rows. Epoch e of the whole
    takes batches [e n_b // r_b, (e + 1) n_b // r_b) of every bucket, in shuffled order: all batches are full, and what
    is left over in one epoch comes first in the next.
    """
    if step < 0 or sum(counts) < 1:
        raise ValueError(f"cannot draw batch {step} from {sum(counts)} pairs")
    epoch = epoch_of(counts, rows, step)
    order = _order(counts, rows, seed, epoch)
    position = step - before_epoch(counts, rows, epoch)
    bucket = int(order[position])
    earlier = int(np.count_nonzero(order[:position] == bucket))
    return bucket, epoch * counts[bucket] // rows[bucket] + earlier


def before_epoch(counts: tuple[int, ...], rows: tuple[int, ...], epoch: int) -> int:
    """How many batches come before an epoch."""
    return sum(epoch * n // r for n, r in zip(counts, rows, strict=True))


def epoch_of(counts: tuple[int, ...], rows: tuple[int, ...], step: int) -> int:
    """The epoch in which a step lies: the last one that begins at or before it and is not empty."""
    low, high = 0, 1
    while before_epoch(counts, rows, high) <= step:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if before_epoch(counts, rows, middle) <= step else (low, middle)
    return low


@lru_cache(maxsize=16)
def _order(counts: tuple[int, ...], rows: tuple[int, ...], seed: int, epoch: int) -> np.ndarray:
    """The buckets of an epoch's batches, shuffled."""
    many = [(epoch + 1) * n // r - epoch * n // r for n, r in zip(counts, rows, strict=True)]
    return generator(seed, epoch, ORDER).permutation(np.repeat(np.arange(len(counts)), many))
