"""Files of data: finding them, fetching published ones that are missing, and reading them, packed or not, with a check
of their content.

The data folder is the one given, else `$SPLITSTEP_DATA`, else `./data`. Published files come from their official
source, or from `$SPLITSTEP_MIRROR`, which serves the same files by their paths in the data folder.
"""

import gzip
import hashlib
import http.client
import io
import lzma
import os
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..support.documents import decode
from ..support.files import whole_file

BLOCK = 1 << 20
PACKED = (".gz", ".tgz", ".xz", ".zip")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
"""What reads packed text."""
TIMEOUT = 20.0  # seconds without an answer
ROOM, RATIO = 64 << 20, 200
"""A packed file of unknown content may hold ROOM bytes plus RATIO times its own size."""
Sought = Literal["file", "folder", "file or folder"]
SOUGHT: dict[Sought, Callable[[Path], bool]] = {
    "file": Path.is_file, "folder": Path.is_dir, "file or folder": Path.exists,
}  # fmt: skip


class Content(NamedTuple):
    """The size and hash of a file once unpacked, however it was packed."""

    size: int
    sha256: str


class Source(NamedTuple):
    """A published file: its path in the data folder, its address, its published hash, and the most bytes that it may
    have."""

    name: str
    url: str
    sha256: str
    most: int


def data_root(data: Path | None) -> Path:
    """The data folder, which may not exist yet."""
    return data if data is not None else Path(os.environ.get("SPLITSTEP_DATA") or "data")


def find(root: Path, *names: str) -> Path | None:
    """The first of the named files that exists, packed or not."""
    return next((root / form for name in names for form in forms(name) if (root / form).is_file()), None)


def forms(name: str) -> list[str]:
    """The names that a file may have: unless its name is that of a packed file, .gz and .xz may follow."""
    return [name] if Path(name).suffix in PACKED else [name, f"{name}.gz", f"{name}.xz"]


def kind_of(path: Path) -> str:
    """The suffix that says how a file is read, without that of its packing."""
    return Path(path.stem).suffix.lower() if path.suffix in OPENERS else path.suffix.lower()


def find_own(name: str, task: str, data: Path | None, what: Sought = "file") -> Path:
    """A user's own file or folder: as named, or under the data folder."""
    root = data_root(data)
    for path in (Path(name), root / name):
        if SOUGHT[what](path):
            return path
    if what == "file" and Path(name).is_dir():
        raise ValueError(f'task "{task}": {name} is a folder: name a file')
    # A run keeps the names that it was given: used from another folder, it needs the one that they are relative to.
    hint = "" if Path(name).is_absolute() else f": add --data DIR, where it is DIR/{name}"
    raise ValueError(f'task "{task}": there is no {what} "{name}", here or in {root}{hint}')


def require(root: Path, task: str, origin: str, *names: str) -> Path:
    """The first of the named files that exists, or an error that says where it comes from and where to put it."""
    found = find(root, *names)
    if found is None:
        packed = ", also as .gz and .xz" if len(forms(names[0])) > 1 else ""
        raise ValueError(
            f'task "{task}": {root / names[0]} is missing{packed}. It comes from {origin}. Put it there, or set '
            f"SPLITSTEP_DATA to the folder that holds {names[0]}"
        )
    return found


def locate(root: Path, source: Source, *names: str) -> Path:
    """The first of the named files that exists, or else the published one, fetched if necessary."""
    return find(root, *names, source.name) or fetch(source, root)


def fetch(source: Source, root: Path) -> Path:
    """Fetch a file into the data folder; it appears there whole and with the right hash, or not at all."""
    mirror = os.environ.get("SPLITSTEP_MIRROR")
    url = f"{mirror.rstrip('/')}/{source.name}" if mirror else source.url
    target = root / source.name
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            target.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(target) as file:
                found = _copy(response, file.write, source.most)
                if found != source.sha256:
                    raise ValueError(f"the answer has sha256 {found} and should have {source.sha256}")
    except (OSError, ValueError, http.client.HTTPException) as error:  # ValueError: not a URL, or refused
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection open
        raise ValueError(
            f"{target} is missing and could not be fetched from {url} ({error}). Put the file there by hand (it is "
            f"published at {source.url}), or set SPLITSTEP_DATA to the folder that holds {source.name}"
        ) from None
    return target


def _copy(response: http.client.HTTPResponse, write: Callable[[bytes], object], most: int) -> str:
    """Copy a response's body and return its sha256; a body shorter than announced, or too long, is refused."""
    announced = response.headers.get("Content-Length")
    total = int(announced) if announced else None
    if total is not None and total > most:
        raise ValueError(f"{total:,} bytes are announced, and the file has at most {most:,}")
    digest, received = hashlib.sha256(), 0
    while block := response.read(BLOCK):
        received += len(block)
        if received > most:
            raise ValueError(f"more than {most:,} bytes came, and the file has at most that many")
        write(block)
        digest.update(block)
    if total is not None and received != total:
        raise ValueError(f"the connection ended after {received:,} of {total:,} bytes")
    return digest.hexdigest()


def read(path: Path, member: str | None = None, content: Content | None = None) -> bytes:
    """A file's bytes, unpacked by its suffix (.gz, .tgz, .xz; .zip with `member`) and checked against `content`.

    No more is unpacked than `content` allows or, without it, than text packed to this size can hold.
    """
    try:
        packed = path.suffix in PACKED
        most = content.size if content else ROOM + RATIO * path.stat().st_size if packed else None
        if path.suffix == ".zip" and member is not None:
            with zipfile.ZipFile(path) as archive, archive.open(member) as file:
                data = _read_all(file, path, most)
        else:
            with OPENERS.get(".gz" if path.suffix == ".tgz" else path.suffix, open)(path, "rb") as file:
                data = _read_all(file, path, most)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, KeyError, RuntimeError) as error:
        raise damaged(path, error) from None  # RuntimeError: encrypted, or packed in an unknown way
    if content is not None and (found := Content(len(data), hashlib.sha256(data).hexdigest())) != content:
        raise ValueError(
            f"{path} holds {found.size:,} bytes and should hold {content.size:,}; it has sha256 {found.sha256} and "
            f"should have {content.sha256}. Fetch it again"
        )
    return data


def read_text(path: Path, member: str | None = None) -> str:
    """The UTF-8 text of a file, unpacked as `read` does."""
    return decode(read(path, member), str(path))


def read_tar(path: Path) -> Iterator[tuple[str, bytes]]:
    """The plain files of a tar archive, packed or not, each with its name in the archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(read(path)), mode="r:") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
                if file is not None:
                    yield entry.name, file.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise damaged(path, error) from None


def damaged(path: Path, error: Exception) -> ValueError:
    """The error for a file that cannot be unpacked, or that the system does not let us read."""
    if isinstance(error, OSError) and error.errno is not None:  # a damaged packed file gives an error without number
        return ValueError(f"{path} cannot be read ({error.strerror}): make it a file that you may read")
    size = path.stat().st_size
    return ValueError(
        f"{path} ({size:,} bytes) is damaged or cut short: {error}. Put a whole copy there; if it was fetched, remove "
        "it to have it fetched again"
    )


def _read_all(file: Any, path: Path, most: int | None) -> bytes:
    """The rest of an open file, read block by block; more than `most` bytes are refused at once."""
    out = io.BytesIO()
    while block := file.read(BLOCK):
        out.write(block)
        if most is not None and out.tell() > most:
            raise ValueError(
                f"{path} ({path.stat().st_size:,} bytes) holds more than {most:,} bytes, which is more than expected: "
                "put the right file there, or unpack it by hand if it is right"
            )
    return out.getvalue()
