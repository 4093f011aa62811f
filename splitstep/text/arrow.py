"""Texts from Parquet files and from folders that Hugging Face datasets has written, read with pyarrow alone."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..support.documents import read_json, readable

FIELD = "text"  # the column or field that holds a document
STATE = "state.json"  # names the files of a dataset; others in its folder are datasets' own cache
ROWS = 1024  # at a time


def is_dataset(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk` of datasets."""
    return (folder / "dataset_info.json").is_file() or (folder / "dataset_dict.json").is_file()


def dataset_files(folder: Path, task: str) -> list[Path]:
    """The files of a dataset, in order."""
    if (folder / "dataset_dict.json").is_file():
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
        yield from texts_of(table.iter_batches(batch_size=ROWS, columns=[FIELD]))


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
        for first in range(0, len(column), ROWS):
            yield from (text for text in column.slice(first, ROWS).to_pylist() if text is not None)
