"""Images of a user's own: a folder for each class, or idx files as MNIST and Fashion-MNIST have them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..text.files import find, read
from .mnist import parse_idx

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
IDX = {"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")}
IDX["test"] = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
Mode = Literal["L", "RGB"]  # Pillow's names of grey and colour


class ImageSet(NamedTuple):
    """The images of a folder: files of each class, or arrays."""

    files: list[Path]
    labels: list[str]
    arrays: np.ndarray | None = None  # of idx files [N, H, W]; then there are no files


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


def is_coloured(image: Any) -> bool:
    """Whether an image has colours, by the kind of file."""
    return image.mode not in ("1", "L", "LA", "I", "I;16", "F")


def find_images(folder: Path, split: str, owner: str) -> ImageSet:
    """The images of a folder: idx files, else a folder for each class."""
    names = IDX.get(split, IDX["train"])
    if find(folder, *names) or find(folder, *IDX["train"]):
        return read_idx(folder, names)
    classes = sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    files = [(path, one.name) for one in classes for path in sorted(one.rglob("*")) if path.suffix.lower() in SUFFIXES]
    if not files:
        raise ValueError(
            f'task "{owner}": {folder} has neither images in a folder for each class, such as {folder / "cats"}'
            f"/1.jpg, nor {IDX['train'][0]}: put them there"
        )
    empty = [one.name for one in classes if one.name not in {label for _, label in files}]
    if empty:
        raise ValueError(f'task "{owner}": the folder {folder / empty[0]} has no images: fill it, or remove it')
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
