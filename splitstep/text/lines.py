"""Lines of parallel text: reading, pairing and holding out, with errors that name file and line."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..support.documents import decode, split_lines
from ..support.words import counted
from .files import read_text

UNLIKE = 4.0  # two longer lines whose lengths differ by this factor are hardly translations of each other


class Lines(NamedTuple):
    """Source and target, line by line. `plain` is the target before tokenisation, if that is known."""

    source: list[str]
    target: list[str]
    plain: list[str] | None = None
    notes: dict[str, int] = {}  # noqa: RUF012  # counts of what preparation left out; never changed


def lines_of(content: bytes, where: str) -> list[str]:
    """The lines of a text, split at line feeds only: other separators may be inside a sentence."""
    return split_lines(decode(content, where))


def read_pairs(source: Path, target: Path) -> Lines:
    """Two files line by line, plain, .gz or .xz."""
    return paired(split_lines(read_text(source)), split_lines(read_text(target)), str(source), str(target))


def paired(source: list[str], target: list[str], source_name: str, target_name: str) -> Lines:
    """Source and target of equal length, or an error with both counts and the first odd line."""
    if len(source) == len(target):
        return Lines(source, target)
    where = f"no line before the {min(len(source), len(target)):,}th, where the shorter one ends, looks out of place"
    for number, (one, two) in enumerate(zip(source, target, strict=False), 1):
        short, long = sorted((len(one.strip()), len(two.strip())))
        if (short == 0) != (long == 0) or (long > 40 and long > UNLIKE * short):
            where = f"they first look unlike at line {number}: {shown(one)} / {shown(two)}"
            break
    raise ValueError(
        f"{source_name} has {counted(len(source), 'line')} and {target_name} has {len(target):,}; line i of one must "
        f"translate line i of the other, and {where}"
    )


def shown(line: str, width: int = 40) -> str:
    """A line as an error quotes it."""
    return repr(line if len(line) <= width else line[: width - 3] + "...")


def folded(text: str) -> str:
    """A sentence in lower case with single blanks: sentences that are equal in this form count as the same."""
    return " ".join(text.split()).casefold()


def hold_out(sources: Sequence[str], shares: Mapping[str, int]) -> dict[str, list[int]]:
    """The rows of each split: as many different sources as `shares` says for each, and the rest for train.

    Sources are ranked by their hash: rows with the same source stay in one split, and the choice depends on nothing but
    the text.
    """
    texts = list(map(folded, sources))
    ranked = sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).digest())
    held = sum(shares.values())
    if held >= len(ranked):
        raise ValueError(
            f"cannot hold out {held} of {len(ranked)} different source sentences; give more text, or files for valid "
            "and test"
        )
    owner = dict(zip(ranked, (split for split, share in shares.items() for _ in range(share)), strict=False))
    rows: dict[str, list[int]] = {split: [] for split in ("train", *shares)}
    for row, text in enumerate(texts):
        rows[owner.get(text, "train")].append(row)
    return rows


def chosen(lines: Lines, rows: Sequence[int]) -> Lines:
    """Some rows of the lines, without the notes, which are about all rows."""
    plain = None if lines.plain is None else [lines.plain[row] for row in rows]
    return Lines([lines.source[row] for row in rows], [lines.target[row] for row in rows], plain)
