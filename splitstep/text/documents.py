"""Documents from text files, folders, JSON lines and tables, read in parts of bounded size; and English that every
machine has: the docstrings of Python's standard library, one document a module."""

import ast
import hashlib
import io
import lzma
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ..support.documents import json_lines, not_utf8
from .arrow import FIELD, dataset_files, is_dataset, read_arrow, read_parquet
from .files import OPENERS, damaged, find_own, kind_of

Boundary = Literal["file", "blank", "line"]
PART = 1 << 20  # characters that are in memory at once; longer documents come in parts
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # from packed files that are cut or damaged
TEXTS = ("", ".md", ".rst", ".text", ".txt")  # the suffixes that are read in a folder, also with .gz and .xz after them
ROWS = (".jsonl", ".ndjson", ".parquet")
NOT_TEXT = (".json", ".csv", ".tsv")  # their commas and brackets would be learnt as text
TABLES = {".parquet": read_parquet, ".arrow": read_arrow}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Tests and their data, what is installed beside the library, generated help text, and programs rather than library.
LEFT_OUT = {"test", "tests", "idlelib", "site-packages", "dist-packages", "pydoc_data", "turtledemo", "__pycache__"}


class Chunk(NamedTuple):
    """A stretch of a document; `first`: its first one."""

    first: bool
    text: str


def find_files(names: Sequence[str], task: str, data: Path | None) -> list[Path]:
    """The files of all sources, in order; those of a folder are sorted by path. Named files must hold something."""
    found: list[Path] = []
    for name in names:
        place = find_own(name, task, data, "file or folder")
        inside = files_of(place, task) if place.is_dir() else [check_kind(place)]
        if not any(file.stat().st_size for file in inside):
            raise ValueError(f'task "{task}": {place} is empty; name a file or a folder with text')
        found += inside
    return found


def check_kind(path: Path) -> Path:
    """The file, unless it is a table whose text would be read with its commas and brackets."""
    if (kind := kind_of(path)) in NOT_TEXT:
        raise ValueError(
            f'{path} ends in {kind}, which is not read as text: write an object with "{FIELD}" on each line of a '
            ".jsonl file, or name it .txt to learn it as it is"
        )
    return path


def own_files(names: Iterable[str], task: str, data: Path | None, kinds: Sequence[str] = TEXTS) -> list[Path]:
    """Files of any kind as they are named, in order; those of a folder are of these kinds, sorted by path."""
    places = (find_own(name, task, data, "file or folder") for name in names)
    return [file for one in places for file in (files_of(one, task, kinds) if one.is_dir() else [one])]


def files_of(folder: Path, task: str, wanted: Sequence[str] = (*TEXTS, *ROWS)) -> list[Path]:
    """The text files below a folder, sorted by path; hidden ones and those of other kinds are left out. Of a folder of
    Hugging Face datasets, the files of the dataset."""
    if ".parquet" in wanted and is_dataset(folder):
        return dataset_files(folder, task)
    every = (file for file in folder.rglob("*") if file.is_file())
    shown = (file for file in every if not any(one.startswith(".") for one in file.relative_to(folder).parts))
    found = sorted(file for file in shown if kind_of(file) in wanted)
    if not found:
        kinds = ", ".join(filter(None, wanted))
        raise ValueError(f'task "{task}": {folder} has no text files; those of a folder end in {kinds}, or .gz, .xz')
    return found


def read_parts(files: Iterable[Path], boundary: Boundary) -> Iterator[Chunk]:
    """The documents of files, part by part. A row of JSON lines or of a table is a document; in text, `boundary` says
    where one ends: with the file, at blank lines or with the line. Documents without text are left out."""
    for file in files:
        texts = rows_of(file)
        if texts is not None:
            yield from (part for text in texts for part in parts_of(text))
        elif boundary == "file":
            yield from blocks_of(file)
        else:
            split = lines_of(file) if boundary == "line" else paragraphs_of(file)
            yield from (part for text in split for part in parts_of(text))


def rows_of(file: Path) -> Iterator[str] | None:
    """The texts of a file with one document a row; None if it is plain text."""
    kind = kind_of(file)
    if kind in TABLES:
        return TABLES[kind](file)
    return read_json_lines(file) if kind in ROWS else None


def parts_of(text: str) -> Iterator[Chunk]:
    """A document in parts that end at blanks, if it has any."""
    text, first = text.strip(), True
    while text:
        end = cut_at(text, PART)
        yield Chunk(first, text[:end])
        text, first = text[end:], False


def cut_at(text: str, most: int) -> int:
    """Where the longest beginning of at most `most` characters ends that a blank follows; `most` if there is none."""
    if len(text) <= most:
        return len(text)
    for end in range(most, most // 2, -1):
        if text[end].isspace():
            return end
    return most


def blocks_of(file: Path) -> Iterator[Chunk]:
    """A whole file as one document."""
    left, first = "", True
    with reading(file) as stream:
        while block := checked(file, lambda: stream.read(PART)):
            left += block
            while len(left) > PART:
                end = cut_at(left, PART)
                if not first or left[:end].strip():
                    yield Chunk(first, left[:end])
                    first = False
                left = left[end:]
    if left.strip():
        yield Chunk(first, left)


def reading(file: Path) -> io.TextIOWrapper:
    """A file, unpacked by its suffix, as UTF-8 text."""
    try:
        return io.TextIOWrapper(OPENERS.get(file.suffix, open)(file, "rb"), encoding="utf-8-sig")
    except OSError as error:
        raise damaged(file, error) from None


def checked(file: Path, read: Callable[[], str]) -> str:
    """What `read` returns; an error names the file."""
    try:
        found = read()
        if "\0" not in found:
            return found
        raise first_wrong_byte(file)
    except UnicodeDecodeError:
        raise first_wrong_byte(file) from None
    except BROKEN as error:
        raise damaged(file, error) from None


def first_wrong_byte(file: Path) -> ValueError:
    """The error for a file that is not UTF-8 text or has a NUL in it: the line is found by reading it once more."""
    try:
        with OPENERS.get(file.suffix, open)(file, "rb") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    line.decode()
                    position = line.find(b"\0")
                except UnicodeDecodeError as error:
                    position = error.start
                if position >= 0:
                    return not_utf8(line, position, str(file), number)
    except BROKEN as error:  # what was read ahead may hold the byte before a packed file turns out to be cut
        return damaged(file, error)
    raise AssertionError(file)


def lines_of(file: Path) -> Iterator[str]:
    """The lines of a file, blank ones too."""
    with reading(file) as stream:
        while line := checked(file, stream.readline):
            yield line


def paragraphs_of(file: Path) -> Iterator[str]:
    """The stretches between blank lines."""
    lines: list[str] = []
    for line in lines_of(file):
        if line.strip():
            lines.append(line)
        elif lines:
            yield "".join(lines)
            lines = []
    yield "".join(lines)


def read_json_lines(file: Path) -> Iterator[str]:
    """The field "text" of each row."""
    for number, row in json_lines(lines_of(file), str(file), f'each line needs a row such as {{"{FIELD}": "..."}}'):
        if not isinstance(row.get(FIELD), str):
            names = ", ".join(map(repr, row)) or "nothing"
            has = f"its {FIELD} is {row[FIELD]!r}" if FIELD in row else f"it has {names}"
            raise ValueError(f'{file}, line {number} needs a field "{FIELD}" that holds text; {has}')
        yield row[FIELD]


def library_files(root: Path) -> list[Path]:
    """The library's modules, relative to its folder, sorted."""
    relative = (path.relative_to(root) for path in root.rglob("*.py"))
    # _sysconfigdata differs from machine to machine.
    return sorted(p for p in relative if not LEFT_OUT & set(p.parts) and not p.name.startswith("_sysconfigdata"))


def library() -> list[Path]:
    """The modules of the running Python."""
    root = Path(sysconfig.get_path("stdlib"))
    return [root / path for path in library_files(root)]


def library_hash() -> str:
    """The sha256 of all modules together."""
    found = hashlib.sha256()
    for path in library():
        found.update(path.read_bytes())
    return found.hexdigest()


def read_docstrings() -> Iterator[Chunk]:
    """The docstrings of each module, joined."""
    for path in library():
        yield from parts_of(docstrings_of(path.read_bytes()))


def docstrings_of(source: bytes) -> str:
    """The docstrings of one module in their order, with blank lines between them."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return "\n\n".join(filter(None, map(ast.get_docstring, nodes)))
