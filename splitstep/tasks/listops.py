"""ListOps: evaluate a nested list expression such as `[MAX 2 9 [MIN 4 7 ] 0 ]`.

The trees are drawn level by level, thousands at once, because a recursion over a hundred million tokens is slow. The
distribution is that of Nangia and Bowman (2018) and of the Long Range Arena (Tay et al., 2021): above the deepest level
a draw r in [0, 1) gives a digit if r > 1/4, else an operator with 2 to `arguments` arguments.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..options import at_least
from ..text.splits import SPLITS
from ..text.tokenizers import word_tokenizer
from .batching import check_buckets
from .cache import derived
from .sequences import SPECIAL, SequenceTask, TokenRows
from .task import Data, DataNote, task_row

NAME = "listops"
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
VOCABULARY = (*SPECIAL, *OPERATORS, "]", *"0123456789")
OPERATOR, CLOSE, DIGIT = VOCABULARY.index("[MIN"), VOCABULARY.index("]"), VOCABULARY.index("0")

OPERATOR_SHARE = 0.25
ROOTS = 20_000  # trees drawn at once; the data depend on it, because each chunk has its own random numbers
SHUFFLE = (0, 1)  # the key of the random numbers for the order of trees; the key of a chunk is a single number
FORMAT = 2  # to be raised when the same parameters give other data, so no old cache is read


@dataclass(frozen=True)
class Variant:
    """A distribution of trees, kept if shortest <= length <= longest, and the number of trees in each split.

    The length counts operators, `]` and digits; the root has depth 1.
    """

    depth: int
    arguments: int
    shortest: int
    longest: int | None
    train: int
    valid: int
    test: int
    buckets: tuple[int, ...]


VARIANTS: dict[str, Variant] = {
    "short": Variant(4, 4, 4, 63, 20_000, 2_000, 2_000, (16, 32, 64)),
    "original": Variant(20, 5, 1, None, 90_000, 2_000, 10_000, ()),
    "lra": Variant(10, 10, 501, 1999, 96_000, 2_000, 2_000, (768, 1024, 1280, 1536, 2000)),
    "long": Variant(10, 10, 500, 1000, 96_000, 2_000, 10_000, (640, 768, 896, 1008)),
}


@dataclass(frozen=True)
class ListOpsOptions:
    """`train`, `valid`, `test`: how many trees, and `buckets`: padded lengths, if they are not the variant's own."""

    variant: Literal["short", "original", "lra", "long"] = "short"
    seed: int = 0
    train: int | None = None
    valid: int | None = None
    test: int | None = None
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        at_least("seed", self.seed, 0)
        for split in SPLITS:
            at_least(split, getattr(self, split), 1)
        check_buckets(self.buckets)


class Level(NamedTuple):
    """The nodes of one depth, in order: their tree, their token, and their number of children in the next level."""

    tree: np.ndarray
    token: np.ndarray
    arguments: np.ndarray


def grow(random: np.random.Generator, roots: int, variant: Variant) -> list[Level]:
    """The levels of those of `roots` random trees whose length is in range."""
    longest = np.iinfo(np.int64).max if variant.longest is None else variant.longest
    levels: list[Level] = []
    tree, length = np.arange(roots), np.zeros(roots, dtype=np.int64)
    for depth in range(1, variant.depth + 1):
        if not len(tree):
            break
        share = OPERATOR_SHARE if depth < variant.depth else -1.0
        inner = random.random(len(tree)) <= share
        digit = DIGIT + random.integers(10, size=len(tree))
        operator = OPERATOR + random.integers(len(OPERATORS), size=len(tree))
        arguments = np.where(inner, random.integers(2, variant.arguments, size=len(tree), endpoint=True), 0)
        levels.append(Level(tree, np.where(inner, operator, digit).astype(np.uint8), arguments))
        length += np.bincount(tree, weights=1 + inner, minlength=roots).astype(np.int64)
        # A tree that is already too long stops growing: it will not be kept.
        arguments = np.where(length[tree] <= longest, arguments, 0)
        tree = np.repeat(tree, arguments)
    keep = (length >= variant.shortest) & (length <= longest)
    return [Level(*(column[keep[level.tree]] for column in level)) for level in levels]


def firsts(arguments: np.ndarray) -> np.ndarray:
    """Where each node's children begin in the next level."""
    return np.cumsum(arguments) - arguments


def fold(levels: Sequence[Level]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The value and the length in tokens of each node of each level, computed from the leaves up."""
    folded: list[tuple[np.ndarray, np.ndarray]] = []
    for level in reversed(levels):
        inner = level.arguments > 0
        value, extent = level.token.astype(np.int64) - DIGIT, np.ones(len(level.token), dtype=np.int64)
        if inner.any():
            below, size = folded[-1]
            count = level.arguments[inner]
            first = firsts(count)
            ranked = np.sort(np.repeat(np.arange(len(count)), count) * 10 + below) % 10
            results = [
                np.minimum.reduceat(below, first),
                np.maximum.reduceat(below, first),
                (ranked[first + (count - 1) // 2] + ranked[first + count // 2]) // 2,
                np.add.reduceat(below, first) % 10,
            ]
            value[inner] = np.choose(level.token[inner] - OPERATOR, results)
            extent[inner] = 2 + np.add.reduceat(size, first)
        folded.append((value, extent))
    return folded[::-1]


def write(levels: Sequence[Level]) -> TokenRows:
    """The trees as tokens; each node's position follows from its parent and the siblings before it."""
    folded = fold(levels)
    labels, lengths = folded[0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = np.zeros(offsets[-1], dtype=np.uint8)
    position = offsets[:-1]
    for number, level in enumerate(levels):
        tokens[position] = level.token
        inner = level.arguments > 0
        if not inner.any():
            break
        begin, count = position[inner], level.arguments[inner]
        tokens[begin + folded[number][1][inner] - 1] = CLOSE
        size = folded[number + 1][1]
        ahead = np.cumsum(size) - size
        position = np.repeat(begin + 1 - ahead[firsts(count)], count) + ahead
    return TokenRows(tokens, offsets, labels.astype(np.uint8))


def draw(variant: Variant, seed: int) -> Iterator[tuple[bytes, int]]:
    """The endless sequence of trees and their values; small trees repeat."""
    for chunk in itertools.count():
        levels = grow(generator(seed, chunk), ROOTS, variant)
        if not levels or not len(levels[0].tree):
            continue
        text = write(levels)
        joined = text.tokens.tobytes()
        bounds = text.offsets.tolist()
        for first, last, label in zip(bounds[:-1], bounds[1:], text.labels.tolist(), strict=True):
            yield joined[first:last], label


def generator(seed: int, *use: int) -> np.random.Generator:
    """The random numbers for one chunk of trees, or for the order of all."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *use])))


def generate(variant: Variant, seed: int) -> TokenRows:
    """The variant's trees, each once, those for training first.

    If there were repeats the trees are shuffled: those drawn late are longer, because short ones have been drawn
    before. Without repeats, as among the long trees of `lra`, their order is random already.
    """
    wanted = variant.train + variant.valid + variant.test
    source, drawn, labels = draw(variant, seed), 0, dict[bytes, int]()
    while len(labels) < wanted:
        tree, label = next(source)
        labels[tree] = label
        drawn += 1
    trees = list(labels)
    if drawn > wanted:
        trees = [trees[i] for i in generator(seed, *SHUFFLE).permutation(wanted)]
    return TokenRows(
        np.frombuffer(b"".join(trees), dtype=np.uint8),
        np.cumsum([0, *map(len, trees)]),
        np.array([labels[tree] for tree in trees], dtype=np.uint8),
    )


def cached(variant: Variant, seed: int) -> TokenRows:
    """The variant's trees from the cache, or generated and stored there."""
    parameters = {**asdict(replace(variant, buckets=())), "seed": seed, "format": FORMAT, "roots": ROOTS}
    names = ("tokens", "offsets", "labels")
    return TokenRows(
        **derived(NAME, parameters, names, lambda: dict(zip(names, generate(variant, seed), strict=False)))
    )


def read_listops(options: ListOpsOptions, data: Path | None = None) -> Data:
    named = VARIANTS[options.variant]
    counts = {split: getattr(options, split) or getattr(named, split) for split in SPLITS}
    variant = replace(named, **counts)
    every = cached(variant, options.seed)
    bounds = np.cumsum([0, *counts.values()]).tolist()
    texts = {split: every.part(bounds[i], bounds[i + 1]) for i, split in enumerate(SPLITS)}
    powers = max(1, int(every.lengths.max()).bit_length() - 5)  # buckets 64, 128, ... up to the first that is enough
    buckets = options.buckets or named.buckets or tuple(64 << power for power in range(powers))
    process = asdict(variant)
    del process["buckets"]  # they describe the batches, not the data
    source = {"name": "ListOps, generated", "variant": options.variant, "seed": options.seed} | process
    return Data(texts, source, word_tokenizer(VOCABULARY), tuple("0123456789"), more={"buckets": buckets})


LISTOPS = task_row(
    NAME, "Nested list operations on digits, in ten classes.", SequenceTask, ListOpsOptions,
    DataNote("24,000 trees, or 100,000 of the Long Range Arena", "generated"), read_listops,
)  # fmt: skip
