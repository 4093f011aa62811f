"""IWSLT14 German-English from its official archive, prepared as the Macaron Net's scripts do."""

import io
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.tasks.fetch import data_root, read, require
from splitstep.tasks.text_pairs import moses
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import Lines, chosen, lines_of, paired
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.translation import Direction, PairOptions, Translation, languages

ARCHIVE = "iwslt14/de-en.tgz"
ORIGIN = "https://wit3.fbk.eu/2014-01 (also http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz)"
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
PUBLISHED = {"train": 160_239, "valid": 7283, "test": 6750}
"""Pairs as the original scripts make them; sacremoses may differ from Moses in a few."""
WORDS, RATIO = 175, 1.5
EVERY = 23
"""Each so-manieth clean pair is for validation."""


@dataclass(frozen=True, kw_only=True)
class Iwslt14Options(PairOptions):
    """Preparation filters by words and ratio itself, before the split, so that those options stay open here."""

    direction: Direction = "de-en"


@final
class Iwslt14(Translation):
    """TED talks of IWSLT14, Moses tokens in small letters."""

    name: ClassVar[str] = "iwslt14"
    Options: ClassVar[type] = Iwslt14Options

    def __init__(self, options: Iwslt14Options, data: Path | None = None) -> None:
        path = require(data_root(data), self.name, ORIGIN, ARCHIVE, "de-en.tgz")
        source, target = languages(options.direction)
        splits = cache(partial(prepare_archive, path, source, target))
        parts = {split: Part((path,), lambda split=split: splits()[split]) for split in PUBLISHED}
        self._load(parts, Form(source, target, "given", True), options)

    def _source(self) -> dict[str, Any]:
        return {"name": "IWSLT14 German-English", "url": ORIGIN, "published_pairs": PUBLISHED}


def prepare_archive(path: Path, source: str, target: str) -> dict[str, Lines]:
    """All splits: tags off, Moses tokens, 1 to 175 words and a ratio of 1.5, every 23rd pair for validation."""
    content = unpack(path, source, target)
    train_names = [f"train.tags.de-en.{side}" for side in (source, target)]
    whole = paired(untagged(content[train_names[0]]), untagged(content[train_names[1]]), *train_names)
    clean = cleaned(tokenised(whole, source, target))
    last = range(EVERY - 1, len(clean.source), EVERY)
    rest = [row for row in range(len(clean.source)) if row % EVERY != EVERY - 1]
    tests = [[f"IWSLT14.{name}.de-en.{side}.xml" for name in TESTS] for side in (source, target)]
    ours, theirs = ([line for name in names for line in segments(content[name])] for names in tests)
    test = paired(ours, theirs, f"the {source} side of test", f"the {target} side")
    train = chosen(clean, rest)._replace(notes=clean.notes)
    return {"train": train, "valid": chosen(clean, last), "test": tokenised(test, source, target)}


def unpack(path: Path, *sides: str) -> dict[str, list[str]]:
    """The lines of the archive's files that are needed, by name."""
    wanted = [f"train.tags.de-en.{side}" for side in sides]
    wanted += [f"IWSLT14.{name}.de-en.{side}.xml" for name in TESTS for side in sides]
    found: dict[str, list[str]] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(read(path)), mode="r:*") as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                file = archive.extractfile(member) if name in wanted else None
                if file is not None:
                    found[name] = lines_of(file.read(), f"{path}: {name}")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged or cut short: {error}. Remove it and fetch it again") from None
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: put the official de-en.tgz there, from {ORIGIN}")
    return found


def untagged(lines: Sequence[str]) -> list[str]:
    """Sentences, titles and descriptions without their tags; lines of other tags are dropped."""
    kept = (line for line in lines if not DROPPED.search(line))
    return [STRIPPED.sub("", line) for line in kept]


DROPPED = re.compile("<url>|<talkid>|<keywords>")
STRIPPED = re.compile("</?title>|</?description>")


def segments(lines: Sequence[str]) -> list[str]:
    """The <seg> lines of a test file, with plain apostrophes."""
    found = (line for line in lines if "<seg id" in line)
    return [SEGMENT.sub("", line).strip().replace("’", "'") for line in found]


SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')


def tokenised(lines: Lines, source: str, target: str) -> Lines:
    """Moses tokens on both sides; the target stays as plain text beside."""
    plain = [" ".join(line.split()) for line in lines.target]
    return Lines(moses.tokenise(lines.source, source), moses.tokenise(lines.target, target), plain)


def cleaned(lines: Lines) -> Lines:
    """Pairs of fitting lengths."""
    pairs = list(zip(lines.source, lines.target, strict=True))
    rows = [row for row, pair in enumerate(pairs) if moses.keep_by_length(*pair, WORDS, RATIO)]
    return chosen(lines, rows)._replace(notes={"lines": len(pairs), "cleaned_away": len(pairs) - len(rows)})
