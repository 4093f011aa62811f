"""Image classification: one array of pixels and one of labels per split; scikit-learn's digits, and MNIST."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from ..options import at_least, at_most
from ..text.files import Content, Source, data_root, locate, read
from ..text.splits import SPLITS, divide_by_class
from .batching import AUGMENT, Chosen, Epochs, generator
from .measures import CLASSES
from .task import Arrays, Batch, Data, DataNote, Task, also_in, class_counts, hashes, task_row


class Pixels(NamedTuple):
    """Square images of whole numbers, grey [N, S, S] or in colour [N, S, S, 3], and their classes [N]."""

    images: np.ndarray
    labels: np.ndarray


class Standard(NamedTuple):
    """How pixels become numbers: divide by `white`, subtract `mean`, divide by `deviation`."""

    white: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class ImageOptions:
    """`patch`: pixels along a patch's side; `shift`: the most pixels by which training images are moved each way."""

    patch: int
    shift: int = 0

    def __post_init__(self) -> None:
        at_least("patch", self.patch, 1)
        at_least("shift", self.shift, 0)


def shifted(images: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Images [N, S, S, ...] moved by moves [N, 2] pixels (down, right), filled up with black."""
    reach = int(np.abs(moves).max(initial=0))
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0))[: images.ndim])
    side = np.arange(images.shape[1])
    rows = reach - moves[:, 0, None] + side
    columns = reach - moves[:, 1, None] + side
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]


def standardised(images: np.ndarray, standard: Standard) -> Any:
    """Images [N, S, S] or [N, S, S, 3] as a model's inputs [N, channels, S, S]."""
    import torch

    values = torch.from_numpy(images.astype(np.float32))
    values = values.unsqueeze(1) if values.ndim == 3 else values.movedim(3, 1).contiguous()
    return (values / standard.white - standard.mean) / standard.deviation


@final
class Images(Task):
    """An image-classification task; `pixel_values` are [B, 1, S, S], or [B, 3, S, S] in colour.

    Of the data, examples are `Pixels`, and the reader is their `Standard`.
    """

    model: ClassVar[str] = "image"
    measure = CLASSES

    def __init__(self, name: str, options: ImageOptions, data: Data) -> None:
        self.name, self.options, self.data, self.labels = name, options, data, data.labels
        self.pixels: Mapping[str, Pixels] = data.splits
        self.standard: Standard = data.reader
        self._side = self.pixels["train"].images.shape[1]
        patches = (self._side // options.patch) ** 2  # a model's class token is not counted
        at_most("shift", options.shift, self._side)
        self.batching = Epochs({split: len(one.labels) for split, one in self.pixels.items()}, patches)
        if self._side % options.patch:
            fits = [n for n in range(1, self._side + 1) if self._side % n == 0]
            given = f"option patch is {options.patch}, which does not divide images of {self._side} pixels"
            raise ValueError(f"{given}; choose one of {fits}")

    @property
    def shape(self) -> dict[str, int]:
        channels = 1 if self.pixels["train"].images.ndim == 3 else 3
        patch = self.options.patch
        return {"image_size": self._side, "channels": channels, "patch": patch, "labels": len(self.labels)}

    def tokens(self, batch: Batch) -> int:
        return len(batch["labels"]) * self.length

    def collate(self, chosen: Chosen) -> Arrays:
        pixels, rows, shift = self.pixels[chosen.split], chosen.rows, self.options.shift
        images = pixels.images[rows]
        if shift and chosen.seed is not None:
            random = generator(chosen.seed, chosen.step, AUGMENT)
            images = shifted(images, random.integers(-shift, shift, size=(len(rows), 2), endpoint=True))
        return {
            "pixel_values": standardised(images, self.standard).numpy(),
            "labels": pixels.labels[rows].astype(np.int64),
        }

    def save_with(self, folder: Path) -> None:
        """The image processor that turns a grey image into this task's pixels."""
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": self._side, "width": self._side},
            "do_rescale": True,
            "rescale_factor": 1 / self.standard.white,
            "do_normalize": True,
            "image_mean": self.standard.mean,  # one number, not a list: pipelines open grey images as colour ones
            "image_std": self.standard.deviation,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")

    def oddities(self) -> dict[str, dict[str, int]]:
        """Only of one's own images: those of published sets are what they are."""
        if not self.data.more.get("own"):
            return {}
        texts = {split: [image.tobytes() for image in one.images] for split, one in self.pixels.items()}
        return {"also in train": also_in(set(texts["train"]), texts)}

    def describe(self) -> dict[str, Any]:
        labels = {split: one.labels for split, one in self.pixels.items()}
        return {
            "task": self.name,
            "source": self.data.source,
            "examples": {split: len(found) for split, found in labels.items()},
            "classes": class_counts(labels, len(self.labels)),
            "sha256": hashes({split: one.images for split, one in self.pixels.items()}),
            "standard": self.standard._asdict(),
            "shift": self.options.shift,
        }


# Scikit-learn's handwritten digits, 8 x 8: nothing to download, learned in seconds.
DIGITS_SOURCE = {"name": "sklearn.datasets.load_digits", "origin": "UCI optical recognition of handwritten digits"}
SIDE = 8
LABELS = tuple("0123456789")
DIGITS_STANDARD = Standard(white=16.0, mean=0.3057, deviation=0.3765)


@dataclass(frozen=True)
class DigitsOptions(ImageOptions):
    """Patches of 2 x 2 pixels."""

    patch: int = 2


def load_digits_of(white: float = 16.0) -> dict[str, Pixels]:
    """Scikit-learn's digits, from 0 to this: three fifths, one fifth and one fifth of each class, ranked by the hash of
    the image."""
    from sklearn.datasets import load_digits

    grey, numbers = map(np.asarray, load_digits(return_X_y=True))
    images = np.rint(grey.reshape(-1, SIDE, SIDE) * white / 16).astype(np.uint8)
    found = [hashlib.sha256(image.tobytes()).hexdigest() for image in images]
    parts = divide_by_class(found, numbers, lambda n: (n * 3 // 5, n * 4 // 5))
    return {split: Pixels(images[rows], numbers[rows]) for split, rows in zip(SPLITS, parts, strict=True)}


DIGITS = task_row(
    "digits", "1,797 digits of 8 x 8 pixels in ten classes.", Images, DigitsOptions,
    DataNote("1,797 images", "built in", origin="scikit-learn"),
    lambda options, data: Data(load_digits_of(), DIGITS_SOURCE, DIGITS_STANDARD, LABELS),
)  # fmt: skip


# MNIST: handwritten digits of 28 x 28 pixels.
MNIST_FROM = "https://ossci-datasets.s3.amazonaws.com/mnist/"
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
MNIST_STANDARD = Standard(white=255.0, mean=0.1307, deviation=0.3081)
MNIST_HELD = 5_000  # training images set aside for validation: the last ones, as usual


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
        source = Source(f"mnist/{name}.gz", f"{MNIST_FROM}{name}.gz", PACKED[name], MOST)
        path = locate(root, source, f"mnist/{name}")
        arrays.append(parse_idx(read(path, content=CONTENTS[name]), path))
    return Pixels(*arrays)


def read_mnist(options: MnistOptions, data: Path | None = None) -> Data:
    root = data_root(data)
    images, labels = load_pair(root, "train")
    pixels = {
        "train": Pixels(images[:-MNIST_HELD], labels[:-MNIST_HELD]),
        "valid": Pixels(images[-MNIST_HELD:], labels[-MNIST_HELD:]),
        "test": load_pair(root, "t10k"),
    }
    return Data(pixels, {"name": "MNIST", "files": sorted(CONTENTS)}, MNIST_STANDARD, LABELS)


MNIST = task_row(
    "mnist", "55,000 training, 5,000 validation and 10,000 test images in ten classes.", Images, MnistOptions,
    DataNote("70,000 images, 11 MB", "fetched", tuple(f"mnist/{name}.gz" for name in PACKED), MNIST_FROM), read_mnist,
)  # fmt: skip
