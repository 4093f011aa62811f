"""Numbers in words, English and German: translation that needs no data."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...text.lines import Lines
from ..task import Data, DataNote, task_row
from .codec import TextForm
from .prepared import Part
from .translation import EXACT, Direction, PairOptions, Translation

ENGLISH = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]  # fmt: skip
GERMAN_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
MILLION = 1_000_000
OFTEN = 500  # how many times training repeats 0


def english(n: int) -> str:
    """A number below a million in English words: "forty-two thousand three hundred and one"."""
    if n < 20:
        return ENGLISH[n]
    if n < 100:
        return ENGLISH_TENS[n // 10 - 2] + (f"-{ENGLISH[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ENGLISH[n // 100]} hundred" + (f" and {english(n % 100)}" if n % 100 else "")
    rest = n % 1000
    joined = "" if not rest else f" and {english(rest)}" if rest < 100 else f" {english(rest)}"
    return f"{english(n // 1000)} thousand{joined}"


def german(n: int, last: bool = True) -> str:
    """A number below a million as one German word, ones before tens; 1 is "eins" only at the end of the word."""
    if n < 20:
        return GERMAN[n] if last or n != 1 else "ein"
    if n < 100:
        tens = GERMAN_TENS[n // 10 - 2]
        return f"{german(n % 10, last=False)}und{tens}" if n % 10 else tens
    unit, name = (1000, "tausend") if n >= 1000 else (100, "hundert")
    return german(n // unit, last=False) + name + (german(n % unit) if n % unit else "")


@dataclass(frozen=True, kw_only=True)
class NumbersOptions(PairOptions):
    """`highest`: the numbers are 0 to this; `train`, `valid` and `test`: how many different ones each split has.

    Training repeats the small ones.
    """

    direction: Direction = "en-de"
    merges: int = 60
    highest: int = 99_999
    train: int = 20_000
    valid: int = 500
    test: int = 500
    seed: int = 0
    LEAST: ClassVar[dict[str, int]] = PairOptions.LEAST | {"highest": 3, "train": 1, "valid": 1, "test": 1, "seed": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest >= MILLION:
            raise ValueError(f"option highest is {self.highest}, and needs a number below a million")
        if self.train + self.valid + self.test > self.highest + 1:
            raise ValueError(
                f"options train {self.train}, valid {self.valid} and test {self.test} are more than the "
                f"{self.highest + 1} numbers up to highest; raise highest, or ask for fewer"
            )


def read_numbers(options: NumbersOptions, data: Path | None = None) -> Data:
    """Those of validation and test are not in training."""
    sizes = {"train": options.train, "valid": options.valid, "test": options.test}
    order = drawn(options.highest, sum(sizes.values()), options.seed)
    train, rest = order[: options.train], order[options.train :]
    splits = {"train": repeated(train), "valid": rest[: options.valid], "test": rest[options.valid :]}
    sides = options.languages
    parts = {split: Part((), partial(lines_of_numbers, numbers, *sides)) for split, numbers in splits.items()}
    source = {"name": "numbers in words", "highest": options.highest, "seed": options.seed}
    cached = {"highest": options.highest, "seed": options.seed, "often": OFTEN, **sizes}
    return Data(parts, source, TextForm(*sides), measure=EXACT, more={"cached": cached})


def drawn(highest: int, count: int, seed: int) -> list[int]:
    """Different numbers from 0 to `highest` in random order, n with a weight of 1 / (n + 1)."""
    random = np.random.Generator(np.random.Philox(seed))
    late = random.exponential(size=highest + 1) * np.arange(1, highest + 2)
    return random.permutation(np.argsort(late)[:count]).tolist()


def repeated(numbers: list[int]) -> list[int]:
    """Each number, the small ones many times: people try those first, and there are few of them."""
    return [n for n in numbers for _ in range(max(1, OFTEN // (n + 1)))]


def lines_of_numbers(numbers: list[int], source: str, target: str) -> Lines:
    write = {"en": english, "de": german}
    return Lines(list(map(write[source], numbers)), list(map(write[target], numbers)))


NUMBERS = task_row(
    "numbers", "Numbers in words; those of validation and test are not in training.", Translation, NumbersOptions,
    DataNote("21,000 numbers", "generated"), read_numbers,
)  # fmt: skip
