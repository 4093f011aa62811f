"""Text byte by byte: the source of Python's standard library, which every machine has, and enwik8."""

import hashlib
import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..options import at_least
from ..text.documents import library_files
from ..text.files import Content, data_root, read
from ..text.splits import SPLITS, split_at
from .fetch import Source, locate
from .language import Language, WindowOptions
from .task import Data, DataNote, task_row

TWENTIETHS = {"train": 18, "valid": 1, "test": 1}  # the shares of the splits, if a `limit` is given


@dataclass(frozen=True, kw_only=True)
class StdlibOptions(WindowOptions):
    """`limit`: the most bytes in all, nine tenths for training and a twentieth each for validation and test."""

    limit: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("limit", self.limit, 20 * self.length)


def split_of(path: Path) -> str:
    """The split of a file, by the hash of its name alone: 90, 5 and 5 percent."""
    percent = int.from_bytes(hashlib.sha256(path.as_posix().encode()).digest()[:8], "big") % 100
    return "train" if percent < 90 else "valid" if percent < 95 else "test"


def read_library(options: StdlibOptions, data: Path | None = None) -> Data:
    root = Path(sysconfig.get_path("stdlib"))
    every = library_files(root)
    if not every:
        raise ValueError(
            f'task "stdlib": there are no .py files in {root}; this Python has its library in another form. Use '
            "task text with a path of your own"
        )
    files = {split: [path for path in every if split_of(path) == split] for split in SPLITS}
    tokens = {}
    for split, paths in files.items():
        content = b"".join((root / path).read_bytes() for path in paths)
        keep = None if options.limit is None else options.limit * TWENTIETHS[split] // 20
        tokens[split] = np.frombuffer(content, dtype=np.uint8)[:keep]
    source = {
        "name": "Python standard library",
        "python": platform.python_version(),
        "files": {split: len(paths) for split, paths in files.items()},
        "limit": options.limit,
    }
    return Data(tokens, source)


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


def read_enwik8(options: Enwik8Options, data: Path | None = None) -> Data:
    path = locate(data_root(data), SOURCE, "enwik8/enwik8")
    content = np.frombuffer(read(path, member="enwik8", content=CONTENT), dtype=np.uint8)
    return Data(split_at(content, CUTS), {"name": "enwik8", "sha256": CONTENT.sha256})


STDLIB = task_row(
    "stdlib", "Byte-level language modelling on the running Python's standard library.", Language, StdlibOptions,
    DataNote("the Python that runs, some 10 MB", "built in", origin="Python"), read_library,
)  # fmt: skip
ENWIK8 = task_row(
    "enwik8", "Byte-level language modelling on enwik8, split 90 / 5 / 5 million as usual.", Language, Enwik8Options,
    DataNote("100,000,000 bytes, 36 MB packed", "fetched", (SOURCE.name,), SOURCE.url), read_enwik8,
)  # fmt: skip
