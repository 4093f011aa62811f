"""Lines of parallel text: read, paired, held out, each with errors that name file and line."""

import hashlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from splitstep.support.words import counted
from splitstep.tasks.fetch import find, read, require

PACKED = ("", ".gz", ".xz")
"""How a text file may be packed, by the end of its name."""
UNLIKE = 4.0
"""Two lines of more than a few words that differ in length by this factor are hardly translations of each other."""


class Lines(NamedTuple):
    """Source and target, line by line. `plain` is the target before tokenisation, where that is known."""

    source: list[str]
    target: list[str]
    plain: list[str] | None = None
    notes: dict[str, int] = {}  # noqa: RUF012  # counts of what preparation left out; never changed


def lines_of(content: bytes, where: str) -> list[str]:
    """The lines of a text, cut at line feeds only: other separators may stand inside of a sentence."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise no_text(content, error.start, where) from None
    if (nul := content.find(b"\0")) >= 0:
        raise no_text(content, nul, where)
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def no_text(content: bytes, place: int, where: str) -> ValueError:
    """The error for a byte that UTF-8 text does not have. Of each plain letter's two bytes UTF-16 has one NUL."""
    number, nul = content.count(b"\n", 0, place) + 1, content.find(b"\0")
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        likely = "utf-16"
    else:
        likely = "latin1" if nul < 0 else "utf-16le" if nul % 2 else "utf-16be"
    return ValueError(
        f"{where}, line {number}: byte {content[place]:#04x} is not UTF-8 text; convert the file, e.g. with "
        f"`iconv -f {likely} -t utf-8`"
    )


def read_lines(path: Path) -> list[str]:
    """The lines of a file, plain, .gz or .xz."""
    return lines_of(read(path), str(path))


def find_text(root: Path, name: str) -> Path | None:
    """A text file under the data folder, packed or not."""
    return find(root, *(name + end for end in PACKED))


def require_text(root: Path, task: str, origin: str, *names: str) -> Path:
    """The first of the named text files, or an error that says where it comes from."""
    return require(root, task, origin, *names, ends=PACKED)


def read_pairs(source: Path, target: Path) -> Lines:
    """Two files line by line."""
    return paired(read_lines(source), read_lines(target), str(source), str(target))


def paired(source: list[str], target: list[str], source_name: str, target_name: str) -> Lines:
    """Source and target of equal length, or an error with both counts and where they part."""
    if len(source) == len(target):
        return Lines(source, target)
    place = first_unlike(source, target)
    shorter = min(len(source), len(target))
    where = (
        f"they first look unlike at line {place + 1}: {shown(source[place])} / {shown(target[place])}"
        if place is not None
        else f"no line before the {shorter:,}th, where the shorter one ends, looks out of place"
    )
    raise ValueError(
        f"{source_name} has {counted(len(source), 'line')} and {target_name} has {len(target):,}; line i of one must "
        f"translate line i of the other, and {where}"
    )


def first_unlike(source: Sequence[str], target: Sequence[str]) -> int | None:
    """The first line at which one side is empty and the other is not, or far longer than the other."""
    for place, (one, two) in enumerate(zip(source, target, strict=False)):
        short, long = sorted((len(one.strip()), len(two.strip())))
        if (short == 0) != (long == 0) or (long > 40 and long > UNLIKE * short):
            return place
    return None


def shown(line: str, width: int = 40) -> str:
    """A line as an error quotes it."""
    return repr(line if len(line) <= width else line[: width - 3] + "...")


def folded(text: str) -> str:
    """A sentence in small letters with single blanks: sentences that differ in no more are the same one."""
    return " ".join(text.split()).casefold()


def hold_out(sources: Sequence[str], shares: Sequence[int]) -> list[list[int]]:
    """Rows held out, so many different sources for each of `shares`, and last the rows that remain.

    Sources are ranked by their hash: rows with the same source stay together, so that none is in two splits, and the
    choice depends on nothing but the text.
    """
    texts = list(map(folded, sources))
    ranked = sorted(set(texts), key=lambda text: hashlib.sha256(text.encode()).digest())
    if sum(shares) >= len(ranked):
        raise ValueError(
            f"cannot hold out {sum(shares)} of {len(ranked)} different source sentences; give more text, or files for "
            "valid and test"
        )
    owner: dict[str, int] = {}
    first = 0
    for split, share in enumerate(shares):
        owner |= dict.fromkeys(ranked[first : first + share], split)
        first += share
    rows: list[list[int]] = [[] for _ in range(len(shares) + 1)]
    for row, text in enumerate(texts):
        rows[owner.get(text, -1)].append(row)
    return rows


def chosen(lines: Lines, rows: Sequence[int]) -> Lines:
    """Some rows of the lines; the notes are on all of them and stay behind."""
    plain = None if lines.plain is None else [lines.plain[row] for row in rows]
    return Lines([lines.source[row] for row in rows], [lines.target[row] for row in rows], plain)
