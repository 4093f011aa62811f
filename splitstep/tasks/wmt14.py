"""WMT14 English-German from its published files, prepared as the Macaron Net's scripts do."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.tasks.fetch import data_root
from splitstep.tasks.text_pairs import moses
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import Lines, read_pairs, require_text
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.text_pairs.scores import PapersBleu
from splitstep.tasks.translation import COMPOUNDS, Direction, PairOptions, Translation, languages

TRAINING = {
    "europarl-v7.de-en": "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "commoncrawl.de-en": "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "news-commentary-v12.de-en": "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz",
}
NEWS = {"valid": "newstest2013", "test": "newstest2014"}
NEWS_ORIGIN = "http://data.statmt.org/wmt17/translation-task/dev.tgz, one sentence a line without tags"
LONG_NAMES = {"en": "eng", "de": "deu"}


@dataclass(frozen=True, kw_only=True)
class Wmt14Options(PairOptions):
    """Pairs of 1 to 80 words, and 32,764 merges."""

    direction: Direction = "en-de"
    merges: int = 32_764
    words: int | None = 80


@final
class Wmt14(Translation):
    """News and more, cased Moses tokens with hyphens split; valid is newstest2013, test newstest2014."""

    name: ClassVar[str] = "wmt14"
    Options: ClassVar[type] = Wmt14Options
    metric = COMPOUNDS
    papers: ClassVar[PapersBleu | None] = "compounds"

    def __init__(self, options: Wmt14Options, data: Path | None = None) -> None:
        root = data_root(data)
        source, target = languages(options.direction)
        files = tuple(
            training_file(root, stem, side, origin) for stem, origin in TRAINING.items() for side in (source, target)
        )
        form = Form(source, target, "given", hyphens=True, normal=True)
        parts = {"train": Part(files, partial(read_training, files, form))}
        for split, stem in NEWS.items():
            news = news_file(root, stem, source), news_file(root, stem, target)
            parts[split] = Part(news, partial(read_news, *news, source, target))
        self._load(parts, form, options)

    def _source(self) -> dict[str, Any]:
        return {"name": "WMT14 English-German", "training": list(TRAINING), "valid": "newstest2013"}


def training_file(root: Path, stem: str, side: str, origin: str) -> Path:
    """A training file, beside the archive it came from or in the folder that it unpacks to."""
    name = f"{stem}.{side}"
    return require_text(root, Wmt14.name, f"{origin}, unpacked", f"wmt14/{name}", f"wmt14/training/{name}")


def news_file(root: Path, stem: str, side: str) -> Path:
    """A file of test sentences."""
    names = f"wmt14/{stem}.{side}", f"wmt-newstest-en-de/{stem}.{LONG_NAMES[side]}"
    return require_text(root, Wmt14.name, NEWS_ORIGIN, *names)


def read_training(files: tuple[Path, ...], form: Form) -> Lines:
    """All training pairs: punctuation in its plain form, nothing unprintable, Moses tokens with hyphens split."""
    pairs = [read_pairs(one, two) for one, two in zip(files[::2], files[1::2], strict=True)]
    source, target = [line for part in pairs for line in part.source], [line for part in pairs for line in part.target]
    return Lines(form.prepare(source, form.source), form.prepare(target, form.target))


def read_news(one: Path, two: Path, source: str, target: str) -> Lines:
    """Test pairs with plain apostrophes as Moses tokens; the target stays as plain text beside."""
    lines = read_pairs(one, two)
    sides = [[line.replace("’", "'") for line in side] for side in (lines.source, lines.target)]
    done = [
        moses.tokenise(side, language, hyphens=True) for side, language in zip(sides, (source, target), strict=True)
    ]
    return Lines(done[0], done[1], lines.target)
