"""enwik8: the first 100,000,000 bytes of a Wikipedia dump, byte by byte."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from splitstep.tasks.fetch import CONTENTS, data_root, locate, read
from splitstep.tasks.language import Language, check_window
from splitstep.tasks.options import at_least
from splitstep.tasks.task import BITS_PER_BYTE, SPLITS, Metric

CUTS = (90_000_000, 95_000_000)


@dataclass(frozen=True)
class Enwik8Options:
    """`valid_limit`: at most so many validation bytes, for a quick look; the test is always whole."""

    length: int = 512
    stride: int | None = None
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        check_window(self.length, self.stride)
        at_least("valid_limit", self.valid_limit, 2)


@final
class Enwik8(Language):
    """Byte-level language modelling on enwik8, split 90 / 5 / 5 million as usual."""

    name: ClassVar[str] = "enwik8"
    Options: ClassVar[type] = Enwik8Options
    metric: Metric = BITS_PER_BYTE

    def __init__(self, options: Enwik8Options, data: Path | None = None) -> None:
        path = locate(data_root(data), *(f"enwik8/enwik8{suffix}" for suffix in ("", ".gz", ".xz", ".zip")))
        content = np.frombuffer(read(path, member="enwik8", content=CONTENTS["enwik8"]), dtype=np.uint8)
        tokens = dict(zip(SPLITS, np.split(content, CUTS), strict=True))
        self._load(tokens, options.length, options.stride, options.valid_limit)

    def _source(self) -> dict[str, Any]:
        return {"name": "enwik8", "sha256": CONTENTS["enwik8"].sha256}
