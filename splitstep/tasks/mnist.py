"""MNIST: handwritten digits of 28 x 28 pixels."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from splitstep.tasks.fetch import CONTENTS, data_root, locate, read
from splitstep.tasks.images import ImageOptions, Images, Pixels, Standard

STANDARD = Standard(white=255.0, mean=0.1307, deviation=0.3081)
HELD = 5_000
"""Training images set aside for validation: the last ones, as usual."""


@dataclass(frozen=True)
class MnistOptions(ImageOptions):
    """Patches of 4 x 4 pixels."""

    patch: int = 4


def parse_idx(data: bytes, path: Path) -> np.ndarray:
    """The array of bytes in an idx file: two zeros, the type 8, the number of sizes, the sizes, the values."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(
            f"{path} is no idx file of bytes: it begins with {data[:4].hex(' ') or 'nothing'}, not 00 00 08"
        )
    header = 4 + 4 * data[3]
    sizes = np.frombuffer(data[4 : min(header, 4 + (len(data) - 4) // 4 * 4)], dtype=">u4").tolist()
    if len(sizes) != data[3] or len(data) - header != math.prod(sizes):
        raise ValueError(
            f"{path} is damaged or cut short: sizes {sizes} of {data[3]}, and {max(len(data) - header, 0):,} values "
            "after them. Remove it and fetch it again"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(sizes)


def load_pair(root: Path, part: str) -> Pixels:
    """The images and labels of "train" or "t10k"."""
    arrays = []
    for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
        path = locate(root, f"mnist/{name}.gz", f"mnist/{name}")
        arrays.append(parse_idx(read(path, content=CONTENTS[name]), path))
    return Pixels(*arrays)


@final
class Mnist(Images):
    """55,000 training, 5,000 validation and 10,000 test images in ten classes."""

    name: ClassVar[str] = "mnist"
    Options: ClassVar[type] = MnistOptions

    def __init__(self, options: MnistOptions, data: Path | None = None) -> None:
        root = data_root(data)
        images, labels = load_pair(root, "train")
        pixels = {
            "train": Pixels(images[:-HELD], labels[:-HELD]),
            "valid": Pixels(images[-HELD:], labels[-HELD:]),
            "test": load_pair(root, "t10k"),
        }
        self._load(pixels, STANDARD, 10, options)

    def _source(self) -> dict[str, Any]:
        return {"name": "MNIST", "files": sorted(name for name in CONTENTS if "ubyte" in name)}
