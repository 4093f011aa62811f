"""IWSLT14 and WMT14 from their published files, prepared as the Macaron Net's scripts do."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...text import moses
from ...text.files import data_root, read_tar, require
from ...text.lines import Lines, chosen, lines_of, paired, read_pairs
from ..task import Data, DataNote, task_row
from .codec import TextForm
from .prepared import PairOptions, Part, split_parts
from .translation import COMPOUNDS, Direction, Translation

# IWSLT14: TED talks, from the official archive.
ARCHIVE = "iwslt14/de-en.tgz"
ORIGIN = "https://wit3.fbk.eu/2014-01 (also http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz)"
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
PUBLISHED = {"train": 160_239, "valid": 7283, "test": 6750}
"""Pairs that the original scripts make; sacremoses may differ from Moses in a few."""
WORDS, RATIO = 175, 1.5
EVERY = 23  # one clean pair in this many is for validation
DROPPED = re.compile("<url>|<talkid>|<keywords>")
STRIPPED = re.compile("</?title>|</?description>")
SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


@dataclass(frozen=True, kw_only=True)
class Iwslt14Options(PairOptions):
    """Preparation itself filters by words and ratio, before the split, so those options have no default here."""

    direction: Direction = "de-en"


def read_iwslt14(options: Iwslt14Options, data: Path | None = None) -> Data:
    path = require(data_root(data), "iwslt14", ORIGIN, ARCHIVE, "de-en.tgz")
    parts = split_parts((path,), partial(prepare_archive, path, *options.languages))
    source = {"name": "IWSLT14 German-English", "url": ORIGIN, "published_pairs": PUBLISHED}
    return Data(parts, source, TextForm(*options.languages, "given", True))


def prepare_archive(path: Path, source: str, target: str) -> dict[str, Lines]:
    """All splits: no tags, Moses tokens, 1 to 175 words and a ratio of 1.5, every 23rd pair for validation."""
    train_names = [f"train.tags.de-en.{side}" for side in (source, target)]
    test_names = [[f"IWSLT14.{name}.de-en.{side}.xml" for name in TESTS] for side in (source, target)]
    content = unpack(path, [*train_names, *test_names[0], *test_names[1]])
    one, two = train_names
    whole = paired(untagged(content[one]), untagged(content[two]), one, two)
    lines = tokenised(whole, source, target)
    pairs = list(zip(lines.source, lines.target, strict=True))
    rows = [row for row, pair in enumerate(pairs) if moses.keep_by_length(*pair, WORDS, RATIO)]
    notes = {"lines": len(pairs), "cleaned_away": len(pairs) - len(rows)}
    clean = chosen(lines, rows)
    last = range(EVERY - 1, len(clean.source), EVERY)
    rest = [row for row in range(len(clean.source)) if row % EVERY != EVERY - 1]
    ours, theirs = ([line for name in names for line in segments(content[name])] for names in test_names)
    test = paired(ours, theirs, f"the {source} side of test", f"the {target} side")
    train = chosen(clean, rest)._replace(notes=notes)
    return {"train": train, "valid": chosen(clean, last), "test": tokenised(test, source, target)}


def unpack(path: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The lines of the wanted files of the archive, by name."""
    files = ((name.rsplit("/", 1)[-1], content) for name, content in read_tar(path))
    found = {name: lines_of(content, f"{path}: {name}") for name, content in files if name in wanted}
    if missing := [name for name in wanted if name not in found]:
        raise ValueError(f"{path} lacks {', '.join(missing)}: put the official de-en.tgz there, from {ORIGIN}")
    return found


def untagged(lines: Sequence[str]) -> list[str]:
    """Sentences, titles and descriptions without their tags; lines of other tags are dropped."""
    return [STRIPPED.sub("", line) for line in lines if not DROPPED.search(line)]


def segments(lines: Sequence[str]) -> list[str]:
    """The <seg> lines of a test file, with plain apostrophes."""
    return [SEGMENT.sub("", line).strip().replace("’", "'") for line in lines if "<seg id" in line]


def tokenised(lines: Lines, source: str, target: str) -> Lines:
    """Moses tokens on both sides; the target is also kept as plain text."""
    plain = [" ".join(line.split()) for line in lines.target]
    return Lines(moses.tokenise(lines.source, source), moses.tokenise(lines.target, target), plain)


IWSLT14 = task_row(
    "iwslt14", "TED talks of IWSLT14, lower-cased Moses tokens.", Translation, Iwslt14Options,
    DataNote("160,239 pairs", "by hand", (ARCHIVE,), ORIGIN), read_iwslt14,
)  # fmt: skip


# WMT14: news and more.
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
    """Training files are beside the archives that they came from, or in the folder that these unpack to."""
    sides, find = options.languages, partial(require, data_root(data), "wmt14")
    files = [
        find(f"{origin}, unpacked", f"wmt14/{stem}.{side}", f"wmt14/training/{stem}.{side}")
        for stem, origin in TRAINING.items()
        for side in sides
    ]
    form = TextForm(*sides, "given", hyphens=True, normal=True)
    parts = {"train": Part(tuple(files), partial(read_training, files, form))}
    for split, stem in NEWS.items():
        names = [(f"wmt14/{stem}.{side}", f"wmt-newstest-en-de/{stem}.{LONG_NAMES[side]}") for side in sides]
        news = tuple(find(NEWS_ORIGIN, *either) for either in names)
        parts[split] = Part(news, partial(read_news, *news, *sides))
    source = {"name": "WMT14 English-German", "training": list(TRAINING), "valid": "newstest2013"}
    return Data(parts, source, form, measure=COMPOUNDS)


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
