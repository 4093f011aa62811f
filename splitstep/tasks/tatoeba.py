"""Tatoeba German-English: short sentences of everyday talk, many with several translations."""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.tasks.fetch import data_root, read, require
from splitstep.tasks.options import at_least
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import Lines, chosen, hold_out, lines_of
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.text_pairs.scores import PapersBleu
from splitstep.tasks.translation import SACREBLEU, Direction, PlainOptions, Translation, languages

ARCHIVE = "tatoeba-deu-eng/deu-eng.zip"
ORIGIN = "https://www.manythings.org/anki/ (deu-eng.zip, CC-BY 2.0)"


@dataclass(frozen=True, kw_only=True)
class TatoebaOptions(PlainOptions):
    """`held`: so many different source sentences for each of valid and test."""

    direction: Direction = "de-en"
    held: int = 2500

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("held", self.held, 1)


@final
class Tatoeba(Translation):
    """Short sentences; the splits share no source sentence."""

    name: ClassVar[str] = "tatoeba"
    Options: ClassVar[type] = TatoebaOptions
    metric = SACREBLEU
    papers: ClassVar[PapersBleu | None] = None

    def __init__(self, options: TatoebaOptions, data: Path | None = None) -> None:
        path = require(data_root(data), self.name, ORIGIN, ARCHIVE, "tatoeba-deu-eng/deu.txt")
        splits = cache(partial(split_sentences, path, options.direction, options.held))
        parts = {split: Part((path,), lambda split=split: splits()[split]) for split in ("train", "valid", "test")}
        source, target = languages(options.direction)
        self._load(parts, Form(source, target, options.tokens, options.lower), options, {"held": options.held})

    def _source(self) -> dict[str, Any]:
        return {"name": "Tatoeba German-English", "url": ORIGIN, "split": "by the hash of the source sentence"}


def split_sentences(path: Path, direction: str, held: int) -> dict[str, Lines]:
    """Lines `english<TAB>german[<TAB>licence]`, split by source sentence."""
    rows = [line.split("\t") for line in lines_of(read(path, member="deu.txt"), str(path))]
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise ValueError(f"{path}, line {number}: has no tab; it should hold english<TAB>german")
    english, german = [row[0] for row in rows], [row[1] for row in rows]
    lines = Lines(english, german) if direction == "en-de" else Lines(german, english)
    valid, test, train = hold_out(lines.source, (held, held))
    return {split: chosen(lines, rows) for split, rows in (("train", train), ("valid", valid), ("test", test))}
