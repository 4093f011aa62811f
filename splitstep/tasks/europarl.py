"""Europarl German-English: speeches of the European Parliament, and newstest2014 as a test from elsewhere."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.tasks.fetch import data_root
from splitstep.tasks.options import at_least
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import Lines, chosen, find_text, read_pairs, require_text
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.text_pairs.scores import PapersBleu
from splitstep.tasks.translation import COMPOUNDS, Direction, PlainOptions, Translation, languages

ORIGIN = "https://www.statmt.org/europarl/v7/de-en.tgz, its lines shuffled"
NEWS = {"en": "wmt-newstest-en-de/newstest2014.eng", "de": "wmt-newstest-en-de/newstest2014.deu"}


@dataclass(frozen=True, kw_only=True)
class EuroparlOptions(PlainOptions):
    """`held`: so many of the last lines, half for validation and half for test."""

    direction: Direction = "de-en"
    merges: int = 32_000
    ratio: float | None = 2.0
    longest: int = 128
    held: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("held", self.held, 2)


@final
class Europarl(Translation):
    """Speeches; the last lines are held out, and `newstest2014` is a split where its files are there."""

    name: ClassVar[str] = "europarl"
    Options: ClassVar[type] = EuroparlOptions
    metric = COMPOUNDS
    papers: ClassVar[PapersBleu | None] = "compounds"

    def __init__(self, options: EuroparlOptions, data: Path | None = None) -> None:
        root = data_root(data)
        source, target = languages(options.direction)
        files = tuple(
            require_text(root, self.name, ORIGIN, f"europarl-de-en/train.{side}") for side in (source, target)
        )
        splits = cache(partial(split_speeches, *files, options.held))
        parts = {split: Part(files, lambda split=split: splits()[split]) for split in ("train", "valid", "test")}
        news = tuple(
            path for path in (find_text(root, NEWS[source]), find_text(root, NEWS[target])) if path is not None
        )
        if len(news) == 2:
            parts["newstest2014"] = Part(news, partial(read_pairs, *news))
        self._load(parts, Form(source, target, options.tokens, options.lower), options, {"held": options.held})

    def _source(self) -> dict[str, Any]:
        return {"name": "Europarl v7 German-English", "url": ORIGIN, "split": "the last lines are held out"}


def split_speeches(source: Path, target: Path, held: int) -> dict[str, Lines]:
    """All but the last `held` lines, their first half, their second half."""
    lines = read_pairs(source, target)
    n = len(lines.source)
    if n <= held:
        raise ValueError(f"{source} has {n:,} lines, too few to hold out {held:,}; give more, or a smaller option held")
    first, middle = n - held, n - held // 2
    bounds = {"train": (0, first), "valid": (first, middle), "test": (middle, n)}
    return {split: chosen(lines, range(*bound)) for split, bound in bounds.items()}
