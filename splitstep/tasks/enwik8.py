"""enwik8: the first 100,000,000 bytes of a Wikipedia dump, byte by byte."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from ..text.files import Content, data_root, read
from ..text.splits import split_at
from .fetch import Source, locate
from .language import Language, WindowOptions
from .task import DataNote

SOURCE = Source(
    "enwik8/enwik8.zip",
    "https://mattmahoney.net/dc/enwik8.zip",
    "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
    40_000_000,
)
# Its md5 is the published one, a1fa5ffddb56f4953e226637dabbb36a.
CONTENT = Content(100_000_000, "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8")
CUTS = (90_000_000, 95_000_000)


@dataclass(frozen=True, kw_only=True)
class Enwik8Options(WindowOptions):
    """Windows of 512 bytes."""

    length: int = 512


@final
class Enwik8(Language):
    """Byte-level language modelling on enwik8, split 90 / 5 / 5 million as usual."""

    name: ClassVar[str] = "enwik8"
    Options: ClassVar[type] = Enwik8Options
    note = DataNote("100,000,000 bytes, 36 MB packed", "fetched", (SOURCE.name,), SOURCE.url)

    def __init__(self, options: Enwik8Options, data: Path | None = None) -> None:
        path = locate(data_root(data), SOURCE, "enwik8/enwik8")
        content = np.frombuffer(read(path, member="enwik8", content=CONTENT), dtype=np.uint8)
        self._load(split_at(content, CUTS), options, {"name": "enwik8", "sha256": CONTENT.sha256})
