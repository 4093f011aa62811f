"""Which examples a training step sees: pure functions of (seed, step), so resuming needs no state.

Nothing here has state; caches only save work.
"""

from functools import lru_cache

import numpy as np

# Each use draws from a stream of its own, so no two share their numbers.
ROWS, WINDOWS, ORDER, AUGMENT, MASKS, PAIRS = range(6)


def generator(seed: int, number: int, use: int, stream: int = 0) -> np.random.Generator:
    """The random numbers for one use in one step or epoch."""
    if seed < 0 or number < 0:
        raise ValueError(f"seed {seed} and step {number} must be at least 0")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number, use, stream])))


@lru_cache(maxsize=16)
def permutation(n: int, seed: int, epoch: int, stream: int = 0) -> np.ndarray:
    """The order of n examples in one epoch."""
    order = generator(seed, epoch, ROWS, stream).permutation(n)
    order.flags.writeable = False
    return order


def indices(n: int, seed: int, step: int, size: int, stream: int = 0) -> np.ndarray:
    """Rows [step * size, (step + 1) * size) of the endless concatenation of the epochs' permutations."""
    if n < 1 or size < 1 or step < 0:
        raise ValueError(f"cannot draw batch {step} of {size} from {n} examples; the numbers must be at least 0, 1, 1")
    first, last = step * size, (step + 1) * size
    parts = [
        permutation(n, seed, epoch, stream)[max(first - epoch * n, 0) : last - epoch * n]
        for epoch in range(first // n, (last - 1) // n + 1)
    ]
    return np.concatenate(parts)


def starts(n: int, length: int, seed: int, step: int, size: int) -> np.ndarray:
    """Where the `size` random windows of `length` tokens begin in an array of n tokens."""
    if size < 1:
        raise ValueError(f"cannot draw a batch of {size} windows; its size must be at least 1")
    return generator(seed, step, WINDOWS).integers(0, n - length, size=size, endpoint=True)


def bucket(counts: tuple[int, ...], rows: tuple[int, ...], seed: int, step: int) -> tuple[int, int]:
    """The bucket that a step draws from, and the number of its batch in that bucket's own stream.

    Bucket b is an endless stream of permutations of its n_b examples cut into batches of r_b rows. Epoch e of the whole
    takes batches [e n_b // r_b, (e + 1) n_b // r_b) of every bucket, in shuffled order: all batches are full, each
    bucket is drawn in proportion to its count, and what is left over in one epoch comes first in the next.
    """
    if step < 0 or min(rows) < 1 or sum(counts) < 1:
        raise ValueError(f"cannot draw batch {step} of {max(rows)} from {sum(counts)} examples")
    epoch = epoch_of(counts, rows, step)
    order = _order(counts, rows, seed, epoch)
    position = step - before_epoch(counts, rows, epoch)
    chosen = int(order[position])
    earlier = int(np.count_nonzero(order[:position] == chosen))
    return chosen, epoch * counts[chosen] // rows[chosen] + earlier


def before_epoch(counts: tuple[int, ...], rows: tuple[int, ...], epoch: int) -> int:
    """How many batches come before an epoch."""
    return sum(epoch * n // r for n, r in zip(counts, rows, strict=True))


def epoch_of(counts: tuple[int, ...], rows: tuple[int, ...], step: int) -> int:
    """The epoch of a step: the last one that begins at or before it and is not empty."""
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
    batches = [(epoch + 1) * n // r - epoch * n // r for n, r in zip(counts, rows, strict=True)]
    return generator(seed, epoch, ORDER).permutation(np.repeat(np.arange(len(counts)), batches))
