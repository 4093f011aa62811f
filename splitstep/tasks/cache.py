"""Where derived data is kept: `$SPLITSTEP_CACHE`, else `~/.cache/splitstep`."""

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np


def cache_root() -> Path:
    """The cache folder, which may not exist yet."""
    given = os.environ.get("SPLITSTEP_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "splitstep"


def key(parameters: Mapping[str, object]) -> str:
    """A short name for a set of parameters."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that appears at `path` only once it is whole, and not at all after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def store(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a derived file; an unusable cache folder is a user's error with a remedy."""
    try:
        with whole(path) as file:
            write(file)
    except OSError as error:
        raise ValueError(
            f"cannot write {path} ({error.strerror}); set SPLITSTEP_CACHE to a folder that can be written"
        ) from None


def load(path: Path, names: Iterable[str]) -> dict[str, np.ndarray] | None:
    """The named arrays of a stored .npz, or nothing where it is absent or damaged and is to be made again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
