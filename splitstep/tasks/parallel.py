"""Parallel text of one's own: two files, line by line."""

import re
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, final

from splitstep.support.words import counted
from splitstep.tasks.fetch import find_own
from splitstep.tasks.text_pairs.codec import Form
from splitstep.tasks.text_pairs.lines import Lines, chosen, folded, hold_out, read_pairs
from splitstep.tasks.text_pairs.prepared import Part
from splitstep.tasks.text_pairs.scores import PapersBleu
from splitstep.tasks.translation import SACREBLEU, PlainOptions, Translation, languages

MOST = 2000
"""Different source sentences held out at most for a split that has no files; at most a twentieth, too."""


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(PlainOptions):
    """`train`, `valid`, `test`: source file and target file, plain, .gz or .xz; what is not given is held out of train.

    `direction`: the two languages, e.g. fr-en; Moses tokens differ between languages.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    direction: str = "en-de"
    ratio: float | None = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.train:
            raise ValueError("option train is missing; name the source file and the target file: train: [my.en, my.de]")
        for split in ("train", "valid", "test"):
            names = two_files(getattr(self, split))
            if len(names) not in (0, 2):
                raise ValueError(
                    f"option {split} names {counted(len(names), 'file')}, {', '.join(names)}; it needs two, source and "
                    f"target: {split}: [my.en, my.de]"
                )
        if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", self.direction):
            raise ValueError(f'option direction is "{self.direction}", and needs two languages such as en-de')


def two_files(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names; `my.en, my.de` on a command line is one text, and means two."""
    return tuple(map(str.strip, names[0].split(","))) if len(names) == 1 else names


@final
class Parallel(Translation):
    """Any two files, of which line i of one translates line i of the other."""

    name: ClassVar[str] = "parallel"
    Options: ClassVar[type] = ParallelOptions
    metric = SACREBLEU
    papers: ClassVar[PapersBleu | None] = None

    def __init__(self, options: ParallelOptions, data: Path | None = None) -> None:
        given = {"train": options.train, "valid": options.valid, "test": options.test}
        files = {
            split: tuple(find_own(name, self.name, data) for name in two_files(names)) for split, names in given.items()
        }
        self._held = [split for split in ("valid", "test") if not files[split]]
        splits = cache(partial(split_own, *files["train"], tuple(self._held)))
        parts = {
            split: Part(files["train"], lambda split=split: splits()[split])
            if split == "train" or not paths
            else Part(paths, partial(read_pairs, *paths))
            for split, paths in files.items()
        }
        source, target = languages(options.direction)
        self._load(parts, Form(source, target, options.tokens, options.lower), options, {"held": self._held})

    def _source(self) -> dict[str, Any]:
        return {"name": "own parallel text", "held_out_of_train": self._held}


def split_own(source: Path, target: Path, held: tuple[str, ...]) -> dict[str, Lines]:
    """The training pairs, and those held out of them for the named splits."""
    lines = read_pairs(source, target)
    if not held:
        return {"train": lines}
    different = len(set(map(folded, lines.source)))
    share = min(MOST, max(1, different // 20))
    if different <= len(held) * share:
        raise ValueError(
            f"{source} has {counted(different, 'different line')}, too few to hold some out for {' and '.join(held)}; "
            "give more lines, or files for those splits"
        )
    rows = hold_out(lines.source, (share,) * len(held))
    return {split: chosen(lines, these) for split, these in zip((*held, "train"), rows, strict=True)}
