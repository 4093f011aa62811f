"""Files and folders that appear whole or not at all, whenever the process is killed or the disk fails."""

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from secrets import token_hex
from typing import IO

from safetensors import SafetensorError

UNLOCKABLE = (errno.ENOSYS, errno.ENOTSUP, errno.EINVAL, errno.ENOLCK)  # from file systems without locks
PART, OLD = ".part-", ".old-"  # how the names of unfinished and of discarded files begin


def cache_root() -> Path:
    """The cache of derived data, `$SPLITSTEP_CACHE`, else `~/.cache/splitstep`; the folder may not exist yet."""
    given = os.environ.get("SPLITSTEP_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "splitstep"


def hidden(mark: str, path: Path) -> Path:
    """A random name beside `path`: no other process writes there, and nobody can have put a link there."""
    return path.with_name(f"{mark}{path.name}-{token_hex(8)}")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn every failure to write into an OSError that names `path`; safetensors has errors of its own."""
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


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which appears at `path` if the block succeeds, and not at all after an error. What killed
    processes left of it is removed."""
    part = hidden(PART, path)
    try:
        with locked_part(part) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(part, path)
        fsync(path.parent)
        remove_dead_parts(path)
    finally:
        part.unlink(missing_ok=True)


def locked_part(part: Path) -> IO[bytes]:
    """A new file that is locked as long as it is open, so that others see that somebody writes it."""
    while True:
        file = part.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if part.exists():  # else another process took it for a dead one before it was locked
            return file
        file.close()


def remove_dead_parts(path: Path) -> None:
    """Remove the unfinished files of `path` that nobody writes any more."""
    for left in path.parent.glob(f"{PART}{escape(path.name)}-*"):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file, or leave the old one."""
    with naming(path), whole_file(path) as file:
        file.write(text.encode())


@contextmanager
def whole_folder(final: Path) -> Iterator[Path]:
    """A hidden folder to write in, which becomes `final` if the block succeeds."""
    part = hidden(PART, final)
    with naming(final):
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
    """Delete a folder; if the process is killed half-way, no folder is left that looks whole."""
    old = hidden(OLD, folder)
    with suppress(FileNotFoundError):  # another process was quicker
        os.rename(folder, old)
    shutil.rmtree(old, ignore_errors=True)


def is_leftover(path: Path) -> bool:
    return path.name.startswith((PART, OLD))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time make what is to appear at `path`, and remove what killed ones left of it."""
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".lock-{path.name}").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep(path.parent, path.name)
        yield


def sweep(folder: Path, name: str = "") -> None:
    """Remove the leftovers of processes that were killed: all, or those of what was to have this name."""
    marks = tuple(f"{mark}{name}" for mark in (PART, OLD))
    for left in (one for one in (folder.iterdir() if folder.is_dir() else ()) if one.name.startswith(marks)):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


class InUse(ValueError):
    """Another process works in this directory."""


@contextmanager
def alone(folder: Path, doing: str = "in use") -> Iterator[None]:
    """Keep other processes out of a folder, and clean up after one that was killed; `doing`: what they are told."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"{folder} is {doing} by another process: wait for it or stop it") from None
        except OSError as error:
            if error.errno not in UNLOCKABLE:
                raise
        sweep(folder)
        yield
    finally:
        os.close(handle)
