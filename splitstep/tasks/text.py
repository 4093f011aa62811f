"""A user's own text, byte by byte."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from .fetch import find_own, read
from .language import Language, WindowOptions
from .task import DataNote, split_at


@dataclass(frozen=True, kw_only=True)
class TextOptions(WindowOptions):
    """`path`: one file or several, plain, .gz or .xz, joined in this order; the last 5 % + 5 % are held out."""

    path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("option path is missing; name the file or files to read, e.g. path: notes.txt")
        super().__post_init__()


@final
class Text(Language):
    """Byte-level language modelling on given files."""

    name: ClassVar[str] = "text"
    Options: ClassVar[type] = TextOptions
    note = DataNote("any text", "your own")

    def __init__(self, options: TextOptions, data: Path | None = None) -> None:
        joined = np.frombuffer(b"".join(read(find_own(name, self.name, data)) for name in options.path), dtype=np.uint8)
        held = len(joined) // 20
        tokens = split_at(joined, [len(joined) - 2 * held, len(joined) - held])
        source = {"files": [Path(name).name for name in options.path]}
        self._load(tokens, options, source)
