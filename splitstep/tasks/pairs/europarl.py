"""Europarl German-English: speeches of the European Parliament, with newstest2014 as an out-of-domain test."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, final

from ...text.files import data_root, find, require
from ...text.lines import Lines, chosen, read_pairs
from ..task import DataNote
from .prepared import pair_part, split_parts
from .translation import COMPOUNDS, Direction, PlainOptions, Translation

ORIGIN = "https://www.statmt.org/europarl/v7/de-en.tgz, its lines shuffled"
FILES = ("europarl-de-en/train.de", "europarl-de-en/train.en")
NEWS = {"en": "wmt-newstest-en-de/newstest2014.eng", "de": "wmt-newstest-en-de/newstest2014.deu"}


@dataclass(frozen=True, kw_only=True)
class EuroparlOptions(PlainOptions):
    """`held`: how many of the last lines are held out, half for validation and half for test."""

    direction: Direction = "de-en"
    merges: int = 32_000
    ratio: float | None = 2.0
    longest: int = 128
    held: int = 5000
    LEAST: ClassVar[dict[str, int]] = PlainOptions.LEAST | {"held": 2}


@final
class Europarl(Translation):
    """Speeches; the last lines are held out, and `newstest2014` is a split if its files exist."""

    name: ClassVar[str] = "europarl"
    Options: ClassVar[type] = EuroparlOptions
    note = DataNote("600,000 pairs in our results, 40 MB", "by hand", FILES, ORIGIN)
    metric = COMPOUNDS

    def __init__(self, options: EuroparlOptions, data: Path | None = None) -> None:
        root = data_root(data)
        names = [f"europarl-de-en/train.{side}" for side in options.languages]
        files = tuple(require(root, self.name, ORIGIN, name) for name in names)
        parts = split_parts(files, partial(split_speeches, *files, options.held))
        news = [path for side in options.languages if (path := find(root, NEWS[side])) is not None]
        if len(news) == 2:
            parts["newstest2014"] = pair_part(*news)
        source = {"name": "Europarl v7 German-English", "url": ORIGIN, "split": "the last lines are held out"}
        self._load(parts, options.form, options, source, {"held": options.held})


def split_speeches(source: Path, target: Path, held: int) -> dict[str, Lines]:
    """All but the last `held` lines for training; their first half for validation, their second half for test."""
    lines = read_pairs(source, target)
    n = len(lines.source)
    if n <= held:
        raise ValueError(f"{source} has {n:,} lines, too few to hold out {held:,}; give more, or lower option held")
    first, middle = n - held, n - held // 2
    bounds = {"train": (0, first), "valid": (first, middle), "test": (middle, n)}
    return {split: chosen(lines, range(*bound)) for split, bound in bounds.items()}
