"""MNIST: handwritten digits of 28 x 28 pixels."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..text.files import Content, data_root, read
from .fetch import Source, locate
from .images import ImageOptions, Images, Pixels, Standard
from .task import Data, DataNote, task_row

ORIGIN = "https://ossci-datasets.s3.amazonaws.com/mnist/"
PACKED = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
MOST = 10_000_000  # bytes of a packed file
CONTENTS = {
    "train-images-idx3-ubyte": Content(47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels-idx1-ubyte": Content(60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "t10k-images-idx3-ubyte": Content(7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte": Content(10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
}
STANDARD = Standard(white=255.0, mean=0.1307, deviation=0.3081)
HELD = 5_000  # training images set aside for validation: the last ones, as usual


@dataclass(frozen=True)
class MnistOptions(ImageOptions):
    """Patches of 4 x 4 pixels."""

    patch: int = 4


def parse_idx(data: bytes, path: Path) -> np.ndarray:
    """The array of bytes in an idx file: two zeros, the type 8, the number of sizes, the sizes, the values."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(
            f"{path} is not an idx file of bytes: it begins with {data[:4].hex(' ') or 'nothing'}, not 00 00 08"
        )
    header = 4 + 4 * data[3]
    sizes = np.frombuffer(data[4 : min(header, 4 + (len(data) - 4) // 4 * 4)], dtype=">u4").tolist()
    if len(sizes) != data[3] or len(data) - header != math.prod(sizes):
        raise ValueError(
            f"{path} is damaged or cut short: sizes {sizes} of {data[3]}, and {max(len(data) - header, 0):,} values "
            "after them. Put a whole copy there; if it was fetched, remove it to have it fetched again"
        )
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(sizes)


def load_pair(root: Path, part: str) -> Pixels:
    """The images and labels of "train" or "t10k"."""
    arrays = []
    for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
        source = Source(f"mnist/{name}.gz", f"{ORIGIN}{name}.gz", PACKED[name], MOST)
        path = locate(root, source, f"mnist/{name}")
        arrays.append(parse_idx(read(path, content=CONTENTS[name]), path))
    return Pixels(*arrays)


def read_mnist(options: MnistOptions, data: Path | None = None) -> Data:
    root = data_root(data)
    images, labels = load_pair(root, "train")
    pixels = {
        "train": Pixels(images[:-HELD], labels[:-HELD]),
        "valid": Pixels(images[-HELD:], labels[-HELD:]),
        "test": load_pair(root, "t10k"),
    }
    return Data(pixels, {"name": "MNIST", "files": sorted(CONTENTS)}, STANDARD, tuple("0123456789"))


MNIST = task_row(
    "mnist", "55,000 training, 5,000 validation and 10,000 test images in ten classes.", Images, MnistOptions,
    DataNote("70,000 images, 11 MB", "fetched", tuple(f"mnist/{name}.gz" for name in PACKED), ORIGIN), read_mnist,
)  # fmt: skip
