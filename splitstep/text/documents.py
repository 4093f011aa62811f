"""Documents from text files, folders, JSON lines and tables, read in parts of bounded size; and English that every
machine has: the docstrings of Python's standard library, one document a module. Parquet files and folders that Hugging
Face datasets has written are read with pyarrow alone."""

import ast
import hashlib
import io
import lzma
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..support.documents import json_lines, not_utf8, read_json, readable
from .files import OPENERS, damaged, find_own, kind_of

Boundary = Literal["file", "blank", "line"]
FIELD = "text"  # the column or field that holds a document
STATE = "state.json"  # names the files of a dataset; others in its folder are datasets' own cache
SEVERAL = "dataset_dict.json"  # in a folder of several datasets
AT_ONCE = 1024  # rows of a table
PART = 1 << 20  # characters that are in memory at once; longer documents come in parts
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # from packed files that are cut or damaged
TEXTS = ("", ".md", ".rst", ".text", ".txt")  # the suffixes that are read in a folder, also with .gz and .xz after them
ROWS = (".jsonl", ".ndjson", ".parquet")
NOT_TEXT = (".json", ".csv", ".tsv")  # their commas and brackets would be learnt as text
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
    if ".parquet" in wanted and any((folder / name).is_file() for name in ("dataset_info.json", SEVERAL)):
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
        if read := ROW_READERS.get(kind_of(file)):
            yield from (part for text in read(file) for part in parts_of(text))
        elif boundary == "file":
            yield from blocks_of(file)
        else:
            split = lines_of(file) if boundary == "line" else paragraphs_of(file)
            yield from (part for text in split for part in parts_of(text))


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
    """The docstrings of each module in their order, with blank lines between them."""
    for path in library():
        nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, DOCUMENTED)]
        nodes.sort(key=lambda node: getattr(node, "lineno", 0))
        yield from parts_of("\n\n".join(filter(None, map(ast.get_docstring, nodes))))


def dataset_files(folder: Path, task: str) -> list[Path]:
    """The files of a dataset that `save_to_disk` of datasets has written, in order."""
    if (folder / SEVERAL).is_file():
        splits = [path.name for path in sorted(folder.iterdir()) if (path / "dataset_info.json").is_file()]
        named = sorted(splits, key=lambda name: (name != "train", name))
        raise ValueError(
            f'task "{task}": {folder} has the splits {", ".join(named)}: name one of them, e.g. '
            f"{folder / (named or ['train'])[0]}"
        )
    found = [folder / name for name in file_names(folder, task)]
    if missing := [file for file in found if not file.is_file()]:
        raise ValueError(f'task "{task}": {missing[0]} is missing: {folder / STATE} names it; write the dataset again')
    return found


def file_names(folder: Path, task: str) -> list[str]:
    """What `STATE` names: files in the folder itself."""
    try:
        names = [one["filename"] for one in read_json(folder / STATE)["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError):
        names = []
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise ValueError(
            f'task "{task}": {folder} has no readable {STATE}, which names its files: name the .arrow files that are '
            "to be read"
        )
    return names


def read_parquet(file: Path) -> Iterator[str]:
    """The texts of a Parquet file, some rows at a time."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{file} needs pyarrow, which is not installed: pip install pyarrow") from None
    with readable(file, "it is not a Parquet file, or only a part of one"):
        table = parquet.ParquetFile(file)
    check_column(file, table.schema_arrow)
    with readable(file, "write it again"):
        yield from texts_of(table.iter_batches(batch_size=AT_ONCE, columns=[FIELD]))


def read_arrow(file: Path) -> Iterator[str]:
    """The texts of a file of datasets, some rows at a time."""
    try:
        import pyarrow
    except ImportError:
        raise ValueError(
            f"{file} needs pyarrow, which is not installed: pip install pyarrow, or write the texts to a file where "
            f'datasets is: datasets.load_from_disk("{file.parent}").to_json("text.jsonl")'
        ) from None
    with readable(file, "it is not a file of datasets, or only a part of one"):
        opened = pyarrow.OSFile(str(file))
        stream = pyarrow.ipc.open_stream(opened)
    with opened, stream:
        check_column(file, stream.schema)
        with readable(file, "write it again"):
            yield from texts_of(stream)


def check_column(file: Path, schema: Any) -> None:
    """Refuse a table without a column of text."""
    from pyarrow import types

    if FIELD not in schema.names:
        raise ValueError(f'{file} needs a column "{FIELD}"; it has {", ".join(schema.names)}')
    kind = schema.field(FIELD).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise ValueError(f'{file}: the column "{FIELD}" holds {kind}, and needs text')


def texts_of(batches: Iterable[Any]) -> Iterator[str]:
    """The texts of batches of rows; empty cells are left out."""
    for batch in batches:
        batch.validate(full=True)  # what a damaged file says of places in memory would be believed
        column = batch.column(FIELD)
        for first in range(0, len(column), AT_ONCE):
            yield from (text for text in column.slice(first, AT_ONCE).to_pylist() if text is not None)


ROW_READERS = {".jsonl": read_json_lines, ".ndjson": read_json_lines, ".parquet": read_parquet, ".arrow": read_arrow}
"""What reads files with one document a row."""
