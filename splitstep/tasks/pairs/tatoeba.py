"""Tatoeba German-English: short everyday sentences, many with several translations."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, final

from ...text.files import data_root, read, require
from ...text.lines import Lines, chosen, hold_out, lines_of
from ..task import DataNote
from .prepared import split_parts
from .translation import SACREBLEU, Direction, PlainOptions, Translation

ARCHIVE = "tatoeba-deu-eng/deu-eng.zip"
ORIGIN = "https://www.manythings.org/anki/ (deu-eng.zip, CC-BY 2.0)"


@dataclass(frozen=True, kw_only=True)
class TatoebaOptions(PlainOptions):
    """`held`: how many different source sentences are held out for each of valid and test."""

    direction: Direction = "de-en"
    held: int = 2500
    LEAST: ClassVar[dict[str, int]] = PlainOptions.LEAST | {"held": 1}


@final
class Tatoeba(Translation):
    """Short sentences; the splits share no source sentence."""

    name: ClassVar[str] = "tatoeba"
    Options: ClassVar[type] = TatoebaOptions
    note = DataNote("169,813 pairs, 4 MB", "by hand", (ARCHIVE,), ORIGIN)
    metric = SACREBLEU

    def __init__(self, options: TatoebaOptions, data: Path | None = None) -> None:
        path = require(data_root(data), self.name, ORIGIN, ARCHIVE, "tatoeba-deu-eng/deu.txt")
        parts = split_parts((path,), partial(split_sentences, path, options.direction, options.held))
        source = {"name": "Tatoeba German-English", "url": ORIGIN, "split": "by the hash of the source sentence"}
        self._load(parts, options.form, options, source, {"held": options.held})


def split_sentences(path: Path, direction: str, held: int) -> dict[str, Lines]:
    """Lines `english<TAB>german[<TAB>licence]`, split by source sentence."""
    rows = [line.split("\t") for line in lines_of(read(path, member="deu.txt"), str(path))]
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise ValueError(f"{path}, line {number}: has no tab; it should hold english<TAB>german")
    english, german = [row[0] for row in rows], [row[1] for row in rows]
    lines = Lines(english, german) if direction == "en-de" else Lines(german, english)
    return {split: chosen(lines, rows) for split, rows in hold_out(lines.source, {"valid": held, "test": held}).items()}
