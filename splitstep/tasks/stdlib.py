"""The source of Python's standard library, byte by byte: text that every machine has."""

import hashlib
import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from ..options import at_least
from ..text.library import library_files
from ..text.splits import SPLITS
from .language import Language, WindowOptions
from .task import DataNote

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


@final
class Stdlib(Language):
    """Byte-level language modelling on the running Python's standard library."""

    name: ClassVar[str] = "stdlib"
    Options: ClassVar[type] = StdlibOptions
    note = DataNote("the Python that runs, some 10 MB", "built in", origin="Python")

    def __init__(self, options: StdlibOptions, data: Path | None = None) -> None:
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
        self._load(tokens, options, source)
