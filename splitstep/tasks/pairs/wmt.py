"""The translation sets of the WMT: Europarl and WMT14."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from ...text import moses
from ...text.files import data_root, find, require
from ...text.lines import Lines, chosen, read_pairs
from ..task import Data, DataNote, task_row
from .codec import TextForm
from .prepared import Part, pair_part, split_parts
from .translation import COMPOUNDS, Direction, PairOptions, PlainOptions, Translation

SPEECHES_FROM = "https://www.statmt.org/europarl/v7/de-en.tgz, its lines shuffled"
SPEECHES = ("europarl-de-en/train.de", "europarl-de-en/train.en")
NEWSTEST = {"en": "wmt-newstest-en-de/newstest2014.eng", "de": "wmt-newstest-en-de/newstest2014.deu"}


@dataclass(frozen=True, kw_only=True)
class EuroparlOptions(PlainOptions):
    """`held`: how many of the last lines are held out, half for validation and half for test."""

    direction: Direction = "de-en"
    merges: int = 32_000
    ratio: float | None = 2.0
    longest: int = 128
    held: int = 5000
    LEAST: ClassVar[dict[str, int]] = PlainOptions.LEAST | {"held": 2}


def read_europarl(options: EuroparlOptions, data: Path | None = None) -> Data:
    """`newstest2014` is a split if its files exist."""
    root = data_root(data)
    names = [f"europarl-de-en/train.{side}" for side in options.languages]
    files = tuple(require(root, "europarl", SPEECHES_FROM, name) for name in names)
    parts = split_parts(files, partial(split_speeches, *files, options.held))
    news = [path for side in options.languages if (path := find(root, NEWSTEST[side])) is not None]
    if len(news) == 2:
        parts["newstest2014"] = pair_part(*news)
    source = {"name": "Europarl v7 German-English", "url": SPEECHES_FROM, "split": "the last lines are held out"}
    return Data(parts, source, options.form, measure=COMPOUNDS, more={"cached": {"held": options.held}})


def split_speeches(source: Path, target: Path, held: int) -> dict[str, Lines]:
    """All but the last `held` lines for training; their first half for validation, their second half for test."""
    lines = read_pairs(source, target)
    n = len(lines.source)
    if n <= held:
        raise ValueError(f"{source} has {n:,} lines, too few to hold out {held:,}; give more, or lower option held")
    first, middle = n - held, n - held // 2
    bounds = {"train": (0, first), "valid": (first, middle), "test": (middle, n)}
    return {split: chosen(lines, range(*bound)) for split, bound in bounds.items()}


EUROPARL = task_row(
    "europarl", "Speeches; the last lines are held out, and `newstest2014` is a split if its files exist.", Translation,
    EuroparlOptions, DataNote("600,000 pairs in our results, 40 MB", "by hand", SPEECHES, SPEECHES_FROM), read_europarl,
)  # fmt: skip


# WMT14 from its published files, prepared as the Macaron Net's scripts do.
TRAINING = {
    "europarl-v7.de-en": "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "commoncrawl.de-en": "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "news-commentary-v12.de-en": "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz",
}
NEWS = {"valid": "newstest2013", "test": "newstest2014"}
NEWS_ORIGIN = "http://data.statmt.org/wmt17/translation-task/dev.tgz, one sentence per line without tags"
WMT14_FILES = tuple(f"wmt14/{stem}.{side}" for stem in (*TRAINING, *NEWS.values()) for side in ("de", "en"))
LONG_NAMES = {"en": "eng", "de": "deu"}


@dataclass(frozen=True, kw_only=True)
class Wmt14Options(PairOptions):
    """Pairs of 1 to 80 words, and 32,764 merges."""

    direction: Direction = "en-de"
    merges: int = 32_764
    words: int | None = 80


def read_wmt14(options: Wmt14Options, data: Path | None = None) -> Data:
    root, sides = data_root(data), options.languages
    files = [training_file(root, stem, side, origin) for stem, origin in TRAINING.items() for side in sides]
    form = TextForm(*sides, "given", hyphens=True, normal=True)
    parts = {"train": Part(tuple(files), partial(read_training, files, form))}
    for split, stem in NEWS.items():
        news = tuple(news_file(root, stem, side) for side in sides)
        parts[split] = Part(news, partial(read_news, *news, *sides))
    source = {"name": "WMT14 English-German", "training": list(TRAINING), "valid": "newstest2013"}
    return Data(parts, source, form, measure=COMPOUNDS)


def training_file(root: Path, stem: str, side: str, origin: str) -> Path:
    """A training file, beside the archive it came from or in the folder that it unpacks to."""
    name = f"{stem}.{side}"
    return require(root, "wmt14", f"{origin}, unpacked", f"wmt14/{name}", f"wmt14/training/{name}")


def news_file(root: Path, stem: str, side: str) -> Path:
    """A file of test sentences."""
    names = f"wmt14/{stem}.{side}", f"wmt-newstest-en-de/{stem}.{LONG_NAMES[side]}"
    return require(root, "wmt14", NEWS_ORIGIN, *names)


def read_training(files: list[Path], form: TextForm) -> Lines:
    """All training pairs: normalised punctuation, nothing unprintable, Moses tokens with hyphens split."""
    pairs = [read_pairs(one, two) for one, two in zip(files[::2], files[1::2], strict=True)]
    source, target = [line for part in pairs for line in part.source], [line for part in pairs for line in part.target]
    return Lines(form.prepare(source, form.source), form.prepare(target, form.target))


def read_news(one: Path, two: Path, source: str, target: str) -> Lines:
    """Test pairs as Moses tokens, with plain apostrophes; the target is also kept as plain text."""
    lines = read_pairs(one, two)
    ours, theirs = ([line.replace("’", "'") for line in side] for side in (lines.source, lines.target))
    return Lines(moses.tokenise(ours, source, True), moses.tokenise(theirs, target, True), lines.target)


WMT14 = task_row(
    "wmt14", "News and more, cased Moses tokens with hyphens split; valid is newstest2013, test is newstest2014.",
    Translation, Wmt14Options,
    DataNote("about 4.5 million pairs", "by hand", WMT14_FILES, ", ".join((*TRAINING.values(), NEWS_ORIGIN))),
    read_wmt14,
)  # fmt: skip
