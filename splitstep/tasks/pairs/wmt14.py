"""WMT14 English-German from its published files, prepared as the Macaron Net's scripts do."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, final

from ...text import moses
from ...text.files import data_root, require
from ...text.lines import Lines, read_pairs
from ..task import DataNote
from .codec import Form
from .prepared import Part
from .translation import COMPOUNDS, Direction, PairOptions, Translation

TRAINING = {
    "europarl-v7.de-en": "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "commoncrawl.de-en": "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "news-commentary-v12.de-en": "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz",
}
NEWS = {"valid": "newstest2013", "test": "newstest2014"}
NEWS_ORIGIN = "http://data.statmt.org/wmt17/translation-task/dev.tgz, one sentence per line without tags"
FILES = tuple(f"wmt14/{stem}.{side}" for stem in (*TRAINING, *NEWS.values()) for side in ("de", "en"))
LONG_NAMES = {"en": "eng", "de": "deu"}


@dataclass(frozen=True, kw_only=True)
class Wmt14Options(PairOptions):
    """Pairs of 1 to 80 words, and 32,764 merges."""

    direction: Direction = "en-de"
    merges: int = 32_764
    words: int | None = 80


@final
class Wmt14(Translation):
    """News and more, cased Moses tokens with hyphens split; valid is newstest2013, test is newstest2014."""

    name: ClassVar[str] = "wmt14"
    Options: ClassVar[type] = Wmt14Options
    note = DataNote("about 4.5 million pairs", "by hand", FILES, ", ".join((*TRAINING.values(), NEWS_ORIGIN)))
    metric = COMPOUNDS

    def __init__(self, options: Wmt14Options, data: Path | None = None) -> None:
        root, sides = data_root(data), options.languages
        files = [training_file(root, stem, side, origin) for stem, origin in TRAINING.items() for side in sides]
        form = Form(*sides, "given", hyphens=True, normal=True)
        parts = {"train": Part(tuple(files), partial(read_training, files, form))}
        for split, stem in NEWS.items():
            news = tuple(news_file(root, stem, side) for side in sides)
            parts[split] = Part(news, partial(read_news, *news, *sides))
        source = {"name": "WMT14 English-German", "training": list(TRAINING), "valid": "newstest2013"}
        self._load(parts, form, options, source)


def training_file(root: Path, stem: str, side: str, origin: str) -> Path:
    """A training file, beside the archive it came from or in the folder that it unpacks to."""
    name = f"{stem}.{side}"
    return require(root, Wmt14.name, f"{origin}, unpacked", f"wmt14/{name}", f"wmt14/training/{name}")


def news_file(root: Path, stem: str, side: str) -> Path:
    """A file of test sentences."""
    names = f"wmt14/{stem}.{side}", f"wmt-newstest-en-de/{stem}.{LONG_NAMES[side]}"
    return require(root, Wmt14.name, NEWS_ORIGIN, *names)


def read_training(files: list[Path], form: Form) -> Lines:
    """All training pairs: normalised punctuation, nothing unprintable, Moses tokens with hyphens split."""
    pairs = [read_pairs(one, two) for one, two in zip(files[::2], files[1::2], strict=True)]
    source, target = [line for part in pairs for line in part.source], [line for part in pairs for line in part.target]
    return Lines(form.prepare(source, form.source), form.prepare(target, form.target))


def read_news(one: Path, two: Path, source: str, target: str) -> Lines:
    """Test pairs as Moses tokens, with plain apostrophes; the target is also kept as plain text."""
    lines = read_pairs(one, two)
    ours, theirs = ([line.replace("’", "'") for line in side] for side in (lines.source, lines.target))
    return Lines(moses.tokenise(ours, source, True), moses.tokenise(theirs, target, True), lines.target)
