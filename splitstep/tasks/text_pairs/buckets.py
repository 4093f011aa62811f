"""A few shapes for sequences of many lengths: padded widths, and rows in a batch."""

import numpy as np

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
