"""The cache of derived data, in `cache_root()`."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..support.documents import read_json
from ..support.files import cache_root, locked, whole_file, whole_folder

T = TypeVar("T")
Arrays = dict[str, np.ndarray]
MANIFEST = "manifest.json"


def key(parameters: Mapping[str, object]) -> str:
    """A short hash of a set of parameters."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder of derived files says of itself; refused if a file does not match its hash."""
    manifest = read_json(folder / MANIFEST)
    if any(digest(folder / name) != wanted for name, wanted in manifest["files"].items()):
        raise ValueError(f"{folder} is damaged")
    return manifest


def write_manifest(folder: Path, entries: Mapping[str, object]) -> None:
    """Complete a folder of derived files with their hashes and what else is known of them."""
    hashes = {path.name: digest(path) for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps({**entries, "files": hashes}), encoding="utf-8")


def unwritable(path: Path, error: OSError) -> ValueError:
    """The error for a cache folder that cannot be written."""
    return ValueError(f"cannot write {path} ({error.strerror}); set SPLITSTEP_CACHE to a folder that can be written")


def derived_folder(folder: Path, load: Callable[[Path], T | None], write: Callable[[Path], Mapping[str, object]]) -> T:
    """What `load` finds in a folder of the cache. If that is None, `write` makes the files, and returns what their
    manifest says, in a folder that appears only once it is whole; other processes wait for the one that makes it."""
    found = load(folder)
    try:
        if found is None:
            with locked(folder):
                found = load(folder)
                if found is None:
                    with whole_folder(folder) as part:
                        write_manifest(part, write(part))
                    found = load(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
    assert found is not None, folder
    return found


def load(path: Path, names: Iterable[str]) -> Arrays | None:
    """The named arrays of a stored .npz, or None if it is missing or damaged and must be made again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def derived(task: str, parameters: Mapping[str, object], names: Iterable[str], make: Callable[[], Arrays]) -> Arrays:
    """The named arrays of a task: from the cache, or made and stored there."""
    path = cache_root() / f"{task}-{key(parameters)}.npz"
    found = load(path, names)
    if found is None:
        found = make()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as file:
                np.savez(file, allow_pickle=False, **found)
        except OSError as error:
            raise unwritable(path, error) from None
    return found
