"""Fetching published files that are missing.

They come from their official source, or from `$SPLITSTEP_MIRROR`, which serves the same files by their paths in the
data folder.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..support.files import whole_file
from ..text.files import BLOCK, find

TIMEOUT = 20.0  # seconds without an answer


class Source(NamedTuple):
    """A published file: its path in the data folder, its address, its published hash, and the most bytes that it may
    have."""

    name: str
    url: str
    sha256: str
    most: int


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
