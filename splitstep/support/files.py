"""Files and folders that appear whole or not at all, whenever the process or the disk gives up."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

PART, OLD = ".part-", ".old-"  # folders being written and being removed


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let every failure to write be one OSError that names `path`; safetensors has errors of its own."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file or leave what was there."""
    part = path.with_name(f"{PART}{path.name}")
    with naming(path):
        try:
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            fsync(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """A hidden folder to write in, which becomes `final` where the block ends well."""
    part = final.with_name(f"{PART}{final.name}")
    with naming(final):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            yield part
            for file in (*part.iterdir(), part):
                fsync(file)
            if final.exists():
                remove(final)
            os.rename(part, final)
            fsync(final.parent)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


def remove(folder: Path) -> None:
    """Delete a folder so that a kill half-way leaves none that looks whole."""
    hidden = folder.with_name(f"{OLD}{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    os.rename(folder, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def is_leftover(path: Path) -> bool:
    return path.name.startswith((PART, OLD))


def sweep(folder: Path) -> None:
    """Remove what a kill left behind."""
    for left in filter(is_leftover, folder.iterdir() if folder.is_dir() else ()):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)
