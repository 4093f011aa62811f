"""A user's own images: a folder for each class, or idx files such as Fashion-MNIST's."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ..options import at_least
from ..text.files import find, find_own
from ..text.splits import SPLITS, ranked_by_class
from .digits import LABELS, SOURCE, load_digits_of
from .image_files import IDX, ImageSet, Mode, find_images, is_coloured, load_pixels, open_image
from .images import ImageOptions, Images, Pixels, Standard
from .task import Data, DataNote, task_row

NAME = "images"
HELD = 0.1  # the share of each class that is held out for validation, and for the test
WHITE = 255.0


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


def find_splits(options: OwnImageOptions, data: Path | None) -> dict[str, ImageSet]:
    """The images of the folders that are given; idx files for the test may be in the training folder."""
    train = find_own(options.train, NAME, data, "folder")
    found = {"train": find_images(train, "train", NAME)}
    for split in SPLITS[1:]:
        if name := getattr(options, split):
            found[split] = find_images(find_own(name, NAME, data, "folder"), split, NAME)
    if "test" not in found and found["train"].arrays is not None and find(train, IDX["test"][0]):
        found["test"] = find_images(train, "test", NAME)
    return found


def class_numbers(found: Mapping[str, ImageSet], where: str) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """The classes of the training images, and the numbers of all images' classes."""
    counts = Counter(found["train"].labels)
    whole = all(label.isdecimal() for label in counts)
    names = tuple(sorted(counts, key=(lambda label: (int(label), label)) if whole else None))
    if len(names) < 2:
        raise ValueError(f'{where} has one class, "{found["train"].labels[0]}": two are needed, a folder for each')
    if rare := [name for name in names if counts[name] == 1]:
        raise ValueError(f'{where}: the class "{rare[0]}" has one image, and cannot be learnt and tested: add more')
    for split, one in found.items():
        if strange := [label for label in one.labels if label not in counts]:
            raise ValueError(f'the class "{strange[0]}" is among the {split} images only: add images of it to {where}')
    return names, {split: np.array([names.index(label) for label in one.labels]) for split, one in found.items()}


def colour_of(found: Mapping[str, ImageSet], wanted: str) -> Mode:
    """How images are read: as told, or in colour if a file of the training images has colours."""
    if wanted != "found":
        return "RGB" if wanted == "rgb" else "L"
    return "RGB" if any(is_coloured(open_image(path)) for path in found["train"].files) else "L"


def with_held_out(pixels: dict[str, Pixels], seed: int) -> dict[str, Pixels]:
    """All three splits: those that are given, and the others held out from the training images, by a hash of seed and
    image, so equal images stay together wherever possible."""
    images, labels = pixels["train"]
    hashes = [hashlib.sha256(b"%d " % seed + one.tobytes()).hexdigest() for one in images]
    missing = [split for split in SPLITS[1:] if split not in pixels]
    rows: dict[str, list[np.ndarray]] = {split: [] for split in ("train", *missing)}
    for members in ranked_by_class(hashes, labels):
        each = min(max(1, round(HELD * len(members))), (len(members) - 1) // max(1, len(missing)))
        cuts = [each * number for number in range(1, len(missing) + 1)]
        for split, part in zip((*missing, "train"), np.split(members, cuts), strict=True):
            rows[split].append(part)
    made = {split: np.sort(np.concatenate(parts)) for split, parts in rows.items()}
    found = pixels | {split: Pixels(images[one], labels[one]) for split, one in made.items()}
    return {split: found[split] for split in SPLITS}


def standard_of(images: np.ndarray) -> Standard:
    """The mean and the deviation of the training pixels."""
    values = images.astype(np.float64) / WHITE
    return Standard(WHITE, round(float(values.mean()), 4), max(round(float(values.std()), 4), 1e-4))


def read_own_images(options: OwnImageOptions, data: Path | None = None) -> Data:
    """The images of the given folders, or scikit-learn's digits."""
    if not options.train:
        pixels = load_digits_of(WHITE)
        return Data(pixels, SOURCE, standard_of(pixels["train"].images), LABELS, more={"own": True})
    found = find_splits(options, data)
    labels, numbers = class_numbers(found, options.train)
    arrays = found["train"].arrays
    side = options.size or (32 if arrays is None else max(arrays.shape[1:]))
    mode: Mode = "L" if arrays is not None else colour_of(found, options.colour)
    given = {split: Pixels(load_pixels(one, mode, side), numbers[split]) for split, one in found.items()}
    if not len(given["train"].images) // 10:
        raise ValueError(f"{options.train} has {len(given['train'].images)} images, and at least 10 are needed")
    held = [split for split in SPLITS if split not in given]
    source = {"name": Path(options.train).name, "scaled_to": side, "colour": mode, "held_out": held}
    pixels = with_held_out(given, options.seed)
    return Data(pixels, source, standard_of(pixels["train"].images), labels, more={"own": True})


OWN_IMAGES = task_row(
    NAME, "Images of one's own in classes.", Images, OwnImageOptions,
    DataNote("a folder for each class, or idx files; without a folder 1,797 digits", "built in"), read_own_images,
)  # fmt: skip
