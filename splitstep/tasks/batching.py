"""Which examples a batch has: pure functions of (seed, step), so resuming needs no state; caches only save work.

Texts of many lengths come in batches of a few shapes, for which compiled code and CUDA graphs are kept: a batch comes
from one bucket and is padded to its width.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

MULTIPLE = 4
"""Widths are multiples of this: with 8 there was a quarter more padding on Multi30k and Tatoeba, with 2 no less."""

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
    beyond = (step + 1) * max(rows)  # an epoch that begins later
    epoch = bisect_right(range(beyond + 1), step, key=lambda epoch: before_epoch(counts, rows, epoch)) - 1
    order = _order(counts, rows, seed, epoch)
    position = step - before_epoch(counts, rows, epoch)
    chosen = int(order[position])
    earlier = int(np.count_nonzero(order[:position] == chosen))
    return chosen, epoch * counts[chosen] // rows[chosen] + earlier


def before_epoch(counts: tuple[int, ...], rows: tuple[int, ...], epoch: int) -> int:
    """How many batches come before an epoch."""
    return sum(epoch * n // r for n, r in zip(counts, rows, strict=True))


@lru_cache(maxsize=16)
def _order(counts: tuple[int, ...], rows: tuple[int, ...], seed: int, epoch: int) -> np.ndarray:
    """The buckets of an epoch's batches, shuffled."""
    batches = [(epoch + 1) * n // r - epoch * n // r for n, r in zip(counts, rows, strict=True)]
    return generator(seed, epoch, ORDER).permutation(np.repeat(np.arange(len(counts)), batches))


class TokenRows(NamedTuple):
    """N rows of tokens one after another: row i is tokens[offsets[i]:offsets[i + 1]]. `labels`: of the rows [N], such
    as their classes; `marks`: of the tokens, such as their types."""

    tokens: np.ndarray
    offsets: np.ndarray
    labels: Any = None
    marks: Any = None

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each row [N]."""
        return np.diff(self.offsets)

    def part(self, first: int, last: int) -> "TokenRows":
        """Rows [first, last) and their labels."""
        offsets = self.offsets[first : last + 1]
        return TokenRows(self.tokens[offsets[0] : offsets[-1]], offsets - offsets[0], self.labels[first:last])

    def padded(self, rows: np.ndarray, width: int, fill: int) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of some rows [B, width], filled up, and a mask of real ones."""
        return padded(self.tokens, self.offsets, rows, width, fill)

    def padded_marks(self, rows: np.ndarray, width: int) -> np.ndarray:
        """The marks of their tokens [B, width], 0 for padding."""
        return padded(self.marks, self.offsets, rows, width, 0)[0]


class Chosen(NamedTuple):
    """The examples of a batch: rows of a split, and the width to which they are padded, if they are. A training batch
    has its seed and step, for what else is drawn."""

    split: str
    rows: np.ndarray
    width: int = 0
    seed: int | None = None
    step: int = 0


class Batching(ABC):
    """How examples become batches. `mean_width`: tokens per training example, padding included."""

    mean_width: int

    @abstractmethod
    def draw(self, seed: int, step: int, size: int) -> Chosen:
        """Training batch number `step`."""

    @abstractmethod
    def every(self, split: str, size: int) -> Iterator[Chosen]:
        """Every example of a split once, in a fixed order."""


@final
class Epochs(Batching):
    """Examples of one shape: `counts` of them in each split, of `width` tokens."""

    def __init__(self, counts: Mapping[str, int], width: int) -> None:
        self.counts, self.mean_width = counts, width

    def draw(self, seed: int, step: int, size: int) -> Chosen:
        return Chosen("train", indices(self.counts["train"], seed, step, size), seed=seed, step=step)

    def every(self, split: str, size: int) -> Iterator[Chosen]:
        for first in range(0, self.counts[split], size):
            yield Chosen(split, np.arange(first, min(first + size, self.counts[split])))


@final
class Windows(Batching):
    """Windows of `length` over arrays of `sizes` tokens: in training they begin anywhere. Held-out rows are pairs of
    where a window begins and its first scored token."""

    def __init__(self, sizes: Mapping[str, int], length: int, stride: int) -> None:
        self.sizes, self.stride, self.length = sizes, stride, length
        self.mean_width = length

    def draw(self, seed: int, step: int, size: int) -> Chosen:
        return Chosen("train", starts(self.sizes["train"], self.length, seed, step, size), self.length, seed, step)

    def every(self, split: str, size: int) -> Iterator[Chosen]:
        n = self.sizes[split]
        windows = np.array(list(spans(n, self.length, self.stride)))
        for rows in np.split(windows, range(size, len(windows), size)):
            yield Chosen(split, rows, min(self.length, n))


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


@final
class Buckets(Batching):
    """The rows of each split, grouped by the smallest padded width that holds them. `trained`: how many of the buckets
    training draws from, by default all. `in_tokens`: the size of a batch counts padded tokens, so all batches have
    about as many."""

    def __init__(
        self, widths: Sequence[int], lengths: Mapping[str, np.ndarray], trained: int | None = None,
        in_tokens: bool = False,
    ) -> None:  # fmt: skip
        self.widths, self.trained, self.in_tokens = tuple(widths), tuple(widths)[:trained], in_tokens
        self.rows = {
            split: [np.flatnonzero(bucket == number) for number in range(len(self.widths))]
            for split, bucket in ((split, np.searchsorted(self.widths, found)) for split, found in lengths.items())
        }
        self.mean_width = round(self.padded_tokens("train") / sum(self.counts("train")))

    def draw(self, seed: int, step: int, size: int) -> Chosen:
        rows, sizes = self.rows["train"][: len(self.trained)], [self.rows_of(size, width) for width in self.trained]
        chosen, number = bucket(tuple(map(len, rows)), tuple(sizes), seed, step)
        found = rows[chosen][indices(len(rows[chosen]), seed, number, sizes[chosen], stream=chosen)]
        return Chosen("train", found, self.widths[chosen], seed, step)

    def every(self, split: str, size: int) -> Iterator[Chosen]:
        """Bucket by bucket, in order within each; the last batch of a bucket may be smaller."""
        for rows, width in zip(self.rows[split], self.widths, strict=True):
            many = self.rows_of(max(size, width) if self.in_tokens else size, width)
            for first in range(0, len(rows), many):
                yield Chosen(split, rows[first : first + many], width)

    def rows_of(self, size: int, width: int) -> int:
        """Rows in a batch of this size and width."""
        return rows_of(size, width) if self.in_tokens else size

    def counts(self, split: str) -> list[int]:
        """How many rows of a split each bucket holds."""
        return [len(rows) for rows in self.rows[split]]

    def padded_tokens(self, split: str) -> int:
        """The tokens of all rows of a split, padding included."""
        return int(np.dot(self.counts(split), self.widths))

    def describe(self) -> dict[str, dict[str, int]]:
        """Rows by split and width, fit for JSON."""
        return {split: dict(zip(map(str, self.widths), self.counts(split), strict=True)) for split in self.rows}


def fitting_buckets(lengths: Mapping[str, np.ndarray], count: int) -> Buckets:
    """At most `count` buckets that waste least in training, and one for the longest of all splits."""
    longest = -(-max(int(found.max()) for found in lengths.values()) // MULTIPLE) * MULTIPLE
    widths = [width for width in choose_widths(lengths["train"], count) if width < longest]
    return Buckets((*widths, longest), lengths)


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
