"""The source of Python's own standard library, byte by byte: text that every machine has."""

import hashlib
import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from splitstep.tasks.language import Language, check_window
from splitstep.tasks.options import at_least
from splitstep.tasks.task import BITS_PER_BYTE, SPLITS, Metric

# Tests and their data, what is installed beside the library, generated help text, and programs rather than library.
LEFT_OUT = {"test", "tests", "idlelib", "site-packages", "dist-packages", "pydoc_data", "turtledemo", "__pycache__"}


@dataclass(frozen=True)
class StdlibOptions:
    """`limit`: at most so many bytes in all, nine tenths for training and a twentieth each for validation and test."""

    length: int = 256
    stride: int | None = None
    limit: int | None = None
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        check_window(self.length, self.stride)
        at_least("limit", self.limit, 20 * self.length)
        at_least("valid_limit", self.valid_limit, 2)


def library_files(root: Path) -> list[Path]:
    """The library's modules, relative to its folder, sorted."""
    relative = (path.relative_to(root) for path in root.rglob("*.py"))
    # The build's own settings are written by each machine for itself.
    return sorted(p for p in relative if not LEFT_OUT & set(p.parts) and not p.name.startswith("_sysconfigdata"))


def split_of(path: Path) -> str:
    """The split of a file, by the hash of its name: 90, 5 and 5 of a hundred, whatever other files there are."""
    place = int.from_bytes(hashlib.sha256(path.as_posix().encode()).digest()[:8], "big") % 100
    return "train" if place < 90 else "valid" if place < 95 else "test"


@final
class Stdlib(Language):
    """Byte-level language modelling on the running Python's standard library."""

    name: ClassVar[str] = "stdlib"
    Options: ClassVar[type] = StdlibOptions
    metric: Metric = BITS_PER_BYTE

    def __init__(self, options: StdlibOptions, data: Path | None = None) -> None:
        root = Path(sysconfig.get_path("stdlib"))
        files = library_files(root)
        if not files:
            raise ValueError(
                f'task "stdlib": there are no .py files in {root}; this Python carries its library in another form. '
                "Use task text with a path of your own"
            )
        self._options = options
        self._files = {split: [path for path in files if split_of(path) == split] for split in SPLITS}
        shares = {"train": 18, "valid": 1, "test": 1}
        tokens = {}
        for split, paths in self._files.items():
            content = b"".join((root / path).read_bytes() for path in paths)
            keep = None if options.limit is None else options.limit * shares[split] // 20
            tokens[split] = np.frombuffer(content, dtype=np.uint8)[:keep]
        self._load(tokens, options.length, options.stride, options.valid_limit)

    def _source(self) -> dict[str, Any]:
        return {
            "name": "Python standard library",
            "python": platform.python_version(),
            "files": {split: len(paths) for split, paths in self._files.items()},
            "limit": self._options.limit,
        }
