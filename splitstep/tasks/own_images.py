"""A user's own images: a folder for each class, or idx files such as Fashion-MNIST's."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..options import at_least
from ..text.files import find, find_own, read
from ..text.splits import SPLITS, divide_by_class
from .images import DIGITS_SOURCE, LABELS, ImageOptions, Images, Pixels, Standard, load_digits_of, parse_idx
from .task import Data, DataNote, number_classes, task_row

NAME = "images"
HELD = 0.1  # the share of each class that is held out for validation, and for the test
WHITE = 255.0
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
IDX = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")}
IDX["test"] = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
GREY = {"1", "L", "LA", "I", "I;16", "F"}  # Pillow's modes of images without colours
Mode = Literal["L", "RGB"]  # Pillow's names of grey and colour


@dataclass(frozen=True)
class OwnImageOptions(ImageOptions):
    """`train`, `valid`, `test`: folders, each with a folder for each class or with idx files; without the last two, a
    tenth of each class is held out for each. `size`: pixels along a side after scaling; 0: 32, or those of idx files.
    `colour`: grey or rgb; found: rgb if one of the images has colours. Without any folder, scikit-learn's digits."""

    patch: int = 4
    train: str = ""
    valid: str = ""
    test: str = ""
    size: int = 0
    colour: Literal["found", "grey", "rgb"] = "found"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("size", self.size or None, self.patch)
        at_least("seed", self.seed, 0)
        if not self.train and (self.valid or self.test):
            raise ValueError("option train is missing: name the folder of training images, data.train=FOLDER")


class ImageSet(NamedTuple):
    """The images of a folder: files of each class, or arrays."""

    files: list[Path]
    labels: list[str]
    arrays: np.ndarray | None = None  # of idx files [N, H, W]; then there are no files

    def at(self, place: int) -> str:
        """Where an image is, for errors."""
        return str(self.files[place]) if self.files else f"image {place + 1} of the idx files"


def pillow() -> Any:
    """Pillow, which opens image files."""
    try:
        from PIL import Image
    except ImportError:
        raise ValueError(
            "images are read with Pillow, which is not installed: pip install 'splitstep[images]'"
        ) from None
    return Image


def open_image(path: Path) -> Any:
    """An image file, whole and upright, as a Pillow image; a broken one is refused in one line."""
    Image = pillow()
    from PIL import ImageOps

    try:
        with Image.open(path) as image:
            image.load()
            if image.mode == "F" and not np.isfinite(np.asarray(image)).all():
                raise ValueError("it has pixels that are not numbers, or infinite")
            return ImageOps.exif_transpose(image)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        reason = str(error).replace(repr(str(path)), "").replace(str(path), "").strip() or type(error).__name__
        raise ValueError(f"{path} is not an image, or a broken one ({reason}): repair or remove it") from None


def pixels_of(image: Any, mode: Mode, side: int) -> np.ndarray:
    """The pixels of a Pillow image, scaled to a square: [S, S] grey or [S, S, 3]. Transparent parts become white."""
    Image = pillow()
    if image.mode.startswith("I"):  # 16 bits a pixel: Pillow would make everything above 255 white
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    scaled = image.convert(mode).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(scaled, dtype=np.uint8)


def find_images(folder: Path, split: str) -> ImageSet:
    """The images of a folder: idx files, else a folder for each class."""
    names = IDX.get(split, IDX["train"])
    if find(folder, *names) or find(folder, *IDX["train"]):
        return read_idx(folder, names)
    classes = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    files = [(path, one.name) for one in classes for path in sorted(one.rglob("*")) if path.suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(
            f'task "{NAME}": {folder} has neither images in a folder for each class, such as {folder / "cats"}'
            f"/1.jpg, nor {IDX['train'][0]}: put them there"
        )
    empty = [one.name for one in classes if one.name not in {label for _, label in files}]
    if empty:
        raise ValueError(f'task "{NAME}": the folder {folder / empty[0]} has no images: fill it, or remove it')
    return ImageSet([path for path, _ in files], [label for _, label in files])


def read_idx(folder: Path, names: Sequence[str]) -> ImageSet:
    """The images and labels of a pair of idx files, packed or not."""
    arrays = []
    for name in names:
        path = find(folder, name)
        if path is None:
            raise ValueError(f"{folder / name} is missing, also as .gz and .xz: put it beside the other idx files")
        arrays.append(parse_idx(read(path), path))
    images, labels = arrays
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(
            f"{folder}: {names[0]} has sizes {list(images.shape)} and {names[1]} {list(labels.shape)}: images are "
            "[N, height, width], and labels [N]"
        )
    return ImageSet([], [str(label) for label in labels.tolist()], images)


def load_pixels(found: ImageSet, mode: Mode, side: int) -> np.ndarray:
    """All images as one array of squares."""
    if found.arrays is not None:
        Image = pillow() if found.arrays.shape[1:] != (side, side) else None
        images = found.arrays if Image is None else [pixels_of(Image.fromarray(one), "L", side) for one in found.arrays]
    else:
        images = [pixels_of(open_image(path), mode, side) for path in found.files]
    return np.stack(list(images))


def find_splits(options: OwnImageOptions, data: Path | None) -> dict[str, ImageSet]:
    """The images of the folders that are given; idx files for the test may be in the training folder."""
    train = find_own(options.train, NAME, data, "folder")
    found = {"train": find_images(train, "train")}
    for split in SPLITS[1:]:
        if name := getattr(options, split):
            found[split] = find_images(find_own(name, NAME, data, "folder"), split)
    if "test" not in found and found["train"].arrays is not None and find(train, IDX["test"][0]):
        found["test"] = find_images(train, "test")
    return found


def with_held_out(pixels: dict[str, Pixels], seed: int) -> dict[str, Pixels]:
    """All three splits: those that are given, and the others held out from the training images, by a hash of seed and
    image, so equal images stay together wherever possible."""
    images, labels = pixels["train"]
    hashes = [hashlib.sha256(b"%d " % seed + one.tobytes()).hexdigest() for one in images]
    missing = [split for split in SPLITS[1:] if split not in pixels]

    def cuts(n: int) -> list[int]:
        each = min(max(1, round(HELD * n)), (n - 1) // max(1, len(missing)))
        return [each * number for number in range(1, len(missing) + 1)]

    rows = dict(zip((*missing, "train"), divide_by_class(hashes, labels, cuts), strict=True))
    found = pixels | {split: Pixels(images[one], labels[one]) for split, one in rows.items()}
    return {split: found[split] for split in SPLITS}


def standard_of(images: np.ndarray) -> Standard:
    """The mean and the deviation of the training pixels."""
    values = images.astype(np.float64) / WHITE
    return Standard(WHITE, round(float(values.mean()), 4), max(round(float(values.std()), 4), 1e-4))


def read_own_images(options: OwnImageOptions, data: Path | None = None) -> Data:
    """The images of the given folders, or scikit-learn's digits."""
    if not options.train:
        pixels = load_digits_of(WHITE)
        return Data(pixels, DIGITS_SOURCE, standard_of(pixels["train"].images), LABELS, more={"own": True})
    found = find_splits(options, data)
    labels, numbers = number_classes(
        {split: one.labels for split, one in found.items()}, lambda split, place: found[split].at(place)
    )
    arrays = found["train"].arrays
    side = options.size or (32 if arrays is None else max(arrays.shape[1:]))
    files = found["train"].files if options.colour == "found" else []
    colours = options.colour == "rgb" or any(open_image(path).mode not in GREY for path in files)
    mode: Mode = "RGB" if colours and arrays is None else "L"
    given = {split: Pixels(load_pixels(one, mode, side), numbers[split]) for split, one in found.items()}
    if not len(given["train"].images) // 10:
        raise ValueError(f"{options.train} has {len(given['train'].images)} images, and at least 10 are needed")
    held = [split for split in SPLITS if split not in given]
    source = {"name": Path(options.train).name, "scaled_to": side, "colour": mode, "held_out": held}
    pixels = with_held_out(given, options.seed)
    return Data(pixels, source, standard_of(pixels["train"].images), labels, more={"own": True})


OWN_IMAGES = task_row(
    NAME, "Your images, in classes.", Images, OwnImageOptions,
    DataNote("a folder for each class, or idx files; without a folder 1,797 digits", "built in"), read_own_images,
)  # fmt: skip
