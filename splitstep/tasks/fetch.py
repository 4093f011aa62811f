"""Finding data files, fetching those that are missing, and reading them with a check of what is inside.

The data folder is the one given, else `$SPLITSTEP_DATA`, else `./data`. A missing file comes from its official source,
or from `$SPLITSTEP_MIRROR`, which serves the same files by their paths in the data folder.
"""

import gzip
import hashlib
import http.client
import lzma
import os
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from splitstep.tasks.cache import whole

Progress = Callable[[int, int | None], None]
"""Called with the bytes received and the bytes to come in all, where the server says."""

BLOCK = 1 << 20


class Source(NamedTuple):
    """Where a file is published, and the hash of the file as published."""

    url: str
    sha256: str


class Content(NamedTuple):
    """What a file holds once unpacked, whichever way it was packed."""

    size: int
    sha256: str


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"

SOURCES: dict[str, Source] = {
    "mnist/train-images-idx3-ubyte.gz": Source(
        _MNIST + "train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "mnist/train-labels-idx1-ubyte.gz": Source(
        _MNIST + "train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "mnist/t10k-images-idx3-ubyte.gz": Source(
        _MNIST + "t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "mnist/t10k-labels-idx1-ubyte.gz": Source(
        _MNIST + "t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
    "20newsgroups/20news-bydate.tar.gz": Source(
        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
        "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    ),
    "enwik8/enwik8.zip": Source(
        "https://mattmahoney.net/dc/enwik8.zip", "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc"
    ),
    "wikitext-2/wikitext-2-v1.zip": Source(
        "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
        "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
    ),
}

CONTENTS: dict[str, Content] = {
    "train-images-idx3-ubyte": Content(47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels-idx1-ubyte": Content(60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "t10k-images-idx3-ubyte": Content(7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte": Content(10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    # The same content as the published md5 a1fa5ffddb56f4953e226637dabbb36a.
    "enwik8": Content(100_000_000, "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8"),
}


def data_root(data: Path | None) -> Path:
    """The data folder, which may not exist yet."""
    return data if data is not None else Path(os.environ.get("SPLITSTEP_DATA") or "data")


def find(root: Path, *names: str) -> Path | None:
    """The first of the named files that is there."""
    return next((root / name for name in names if (root / name).is_file()), None)


def find_own(name: str, task: str, data: Path | None) -> Path:
    """Somebody's own file: as named, or under the data folder."""
    root = data_root(data)
    for path in (Path(name), root / name):
        if path.is_file():
            return path
    # A run keeps the names that it was given: asked from elsewhere, it needs the folder that they start from.
    hint = "" if Path(name).is_absolute() else f": add --data DIR, where it is DIR/{name}"
    raise ValueError(f'task "{task}": there is no file "{name}", here or in {root}{hint}')


def require(root: Path, task: str, origin: str, *names: str, ends: Sequence[str] = ("",)) -> Path:
    """The first of the named files that is there, or an error that says where it comes from and where to put it.

    A name may have any of the `ends`.
    """
    found = find(root, *(name + end for name in names for end in ends))
    if found is None:
        packed = " and ".join(filter(None, ends))
        raise ValueError(
            f'task "{task}": {root / names[0]} is missing{packed and f", also as {packed}"}. It comes from {origin}. '
            f"Put it there, or set SPLITSTEP_DATA to the folder that holds {names[0]}"
        )
    return found


def locate(root: Path, *names: str, progress: Progress | None = None) -> Path:
    """The first of the named files that is there, or else the one that has a source, fetched."""
    found = find(root, *names)
    if found is not None:
        return found
    name = next(name for name in names if name in SOURCES)
    return fetch(name, SOURCES[name], root, progress=progress)


def fetch(
    name: str,
    source: Source,
    root: Path,
    *,
    mirror: str | None = None,
    timeout: float = 20.0,
    progress: Progress | None = None,
) -> Path:
    """Fetch a file to `root / name`; it appears there whole and with the right hash, or not at all."""
    mirror = mirror or os.environ.get("SPLITSTEP_MIRROR")
    url = f"{mirror.rstrip('/')}/{name}" if mirror else source.url
    target = root / name
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response, whole(target) as file:
            found = _copy(response, file.write, progress)
            if found != source.sha256:
                raise _Refused(f"what came has sha256 {found} and should have {source.sha256}")
    except (OSError, ValueError, http.client.HTTPException, _Refused) as error:  # ValueError: no URL at all
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection open
        raise ValueError(
            f"{target} is missing and could not be fetched from {url} ({error}). Put the file there by hand (it is "
            f"published at {source.url}), or set SPLITSTEP_DATA to the folder that holds {name}"
        ) from None
    return target


class _Refused(Exception):
    """A download that arrived but is not what was asked for."""


def _copy(response: http.client.HTTPResponse, write: Callable[[bytes], object], progress: Progress | None) -> str:
    """Copy a response's body and return its sha256; a body shorter than announced is refused."""
    announced = response.headers.get("Content-Length")
    total = int(announced) if announced else None
    digest, received = hashlib.sha256(), 0
    while block := response.read(BLOCK):
        write(block)
        digest.update(block)
        received += len(block)
        if progress is not None:
            progress(received, total)
    if total is not None and received != total:
        raise _Refused(f"the connection ended after {received:,} of {total:,} bytes")
    return digest.hexdigest()


def read(path: Path, member: str | None = None, content: Content | None = None) -> bytes:
    """A file's bytes, unpacked by its suffix (.gz, .xz; .zip with `member`), checked against `content` if given."""
    try:
        data = _unpack(path, member)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, KeyError) as error:
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is damaged or cut short: {error}. Remove it and fetch it again"
        ) from None
    if content is not None:
        check(path, data, content)
    return data


def _unpack(path: Path, member: str | None) -> bytes:
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    if path.suffix == ".zip" and member is not None:
        with zipfile.ZipFile(path) as archive:
            return archive.read(member)
    return path.read_bytes()


def check(path: Path, data: bytes, content: Content) -> None:
    """Refuse content of the wrong size or hash."""
    if len(data) != content.size:
        raise ValueError(f"{path} holds {len(data):,} bytes and should hold {content.size:,}. Fetch it again")
    found = hashlib.sha256(data).hexdigest()
    if found != content.sha256:
        raise ValueError(f"{path} has content of sha256 {found} and should have {content.sha256}. Fetch it again")
