"""A user's own parallel text: two files, line by line."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...support.words import counted
from ...text.files import find_own
from ...text.lines import Lines, chosen, folded, hold_out, read_pairs
from ...text.splits import SPLITS
from ..task import Data, DataNote, task_row
from .prepared import pair_part, split_parts
from .translation import SACREBLEU, PlainOptions, Translation

NAME = "parallel"
MOST = 2000  # source sentences held out for a split that has no files, and at most a twentieth of them


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(PlainOptions):
    """`train`, `valid`, `test`: source file and target file, plain, .gz or .xz; splits not given are held out of train.

    `direction`: the two languages, e.g. fr-en; Moses tokens differ between languages.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    ratio: float | None = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.train:
            raise ValueError("option train is missing; name the source file and the target file: train: [my.en, my.de]")
        for split in SPLITS:
            names = self.files(split)
            if len(names) not in (0, 2):
                raise ValueError(
                    f"option {split} names {counted(len(names), 'file')}, {', '.join(names)}; it needs two, source and "
                    f"target: {split}: [my.en, my.de]"
                )
        if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", self.direction):
            raise ValueError(f'option direction is "{self.direction}", and needs two languages such as en-de')

    def files(self, split: str) -> tuple[str, ...]:
        """The names of a split's files; `my.en, my.de` on a command line is one text, and means two."""
        names: tuple[str, ...] = getattr(self, split)
        return tuple(map(str.strip, names[0].split(","))) if len(names) == 1 else names


def read_parallel(options: ParallelOptions, data: Path | None = None) -> Data:
    files = {split: tuple(find_own(name, NAME, data) for name in options.files(split)) for split in SPLITS}
    held = [split for split in ("valid", "test") if not files[split]]
    parts = split_parts(files["train"], partial(split_own, *files["train"], held))
    parts |= {split: pair_part(*files[split]) for split in ("valid", "test") if files[split]}
    source = {"name": "own parallel text", "held_out_of_train": held}
    return Data(parts, source, options.form, measure=SACREBLEU, more={"cached": {"held": held}})


def split_own(source: Path, target: Path, held: list[str]) -> dict[str, Lines]:
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
    return {split: chosen(lines, rows) for split, rows in hold_out(lines.source, dict.fromkeys(held, share)).items()}


PARALLEL = task_row(
    NAME, "Any two files; line i of one translates line i of the other.", Translation, ParallelOptions,
    DataNote("any two files", "your own"), read_parallel,
)  # fmt: skip
