"""Any text of one's own, byte by byte."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from splitstep.tasks.fetch import find_own, read
from splitstep.tasks.language import Language, check_window, split_bytes
from splitstep.tasks.options import at_least
from splitstep.tasks.task import BITS_PER_BYTE, Metric


@dataclass(frozen=True)
class TextOptions:
    """`path`: one file or several, plain, .gz or .xz, joined in the order given; the last 5 % + 5 % are held out."""

    path: tuple[str, ...] = ()
    length: int = 256
    stride: int | None = None
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("option path is missing; name the file or files to read, e.g. path: notes.txt")
        check_window(self.length, self.stride)
        at_least("valid_limit", self.valid_limit, 2)


@final
class Text(Language):
    """Byte-level language modelling on given files."""

    name: ClassVar[str] = "text"
    Options: ClassVar[type] = TextOptions
    metric: Metric = BITS_PER_BYTE

    def __init__(self, options: TextOptions, data: Path | None = None) -> None:
        self._options = options
        joined = b"".join(read(find_own(name, self.name, data)) for name in options.path)
        tokens = split_bytes(np.frombuffer(joined, dtype=np.uint8))
        self._load(tokens, options.length, options.stride, options.valid_limit)

    def _source(self) -> dict[str, Any]:
        return {"files": [Path(name).name for name in self._options.path]}
