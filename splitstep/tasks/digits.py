"""Scikit-learn's handwritten digits, 8 x 8: nothing to download, learned in seconds."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..text.splits import SPLITS, ranked_by_class
from .images import ImageOptions, Images, Pixels, Standard
from .task import Data, DataNote, task_row

SOURCE = {"name": "sklearn.datasets.load_digits", "origin": "UCI optical recognition of handwritten digits"}
SIDE = 8
LABELS = tuple("0123456789")
STANDARD = Standard(white=16.0, mean=0.3057, deviation=0.3765)


@dataclass(frozen=True)
class DigitsOptions(ImageOptions):
    """Patches of 2 x 2 pixels."""

    patch: int = 2


def split_digits(images: np.ndarray, labels: np.ndarray) -> dict[str, Pixels]:
    """Three fifths, one fifth and one fifth of each class, ranked by the hash of the image."""
    hashes = [hashlib.sha256(image.tobytes()).hexdigest() for image in images]
    parts: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
    for members in ranked_by_class(hashes, labels):
        cuts = [len(members) * 3 // 5, len(members) * 4 // 5]
        for split, rows in zip(SPLITS, np.split(members, cuts), strict=True):
            parts[split].append(rows)
    chosen = {split: np.sort(np.concatenate(rows)) for split, rows in parts.items()}
    return {split: Pixels(images[rows], labels[rows]) for split, rows in chosen.items()}


def load_digits_of(white: float = 16.0) -> dict[str, Pixels]:
    """Scikit-learn's digits, from 0 to this."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    grey = np.asarray(images).reshape(-1, SIDE, SIDE)
    return split_digits(np.rint(grey * white / 16).astype(np.uint8), np.asarray(labels))


def read_digits(options: DigitsOptions, data: Path | None = None) -> Data:
    return Data(load_digits_of(), SOURCE, STANDARD, LABELS)


DIGITS = task_row(
    "digits", "1,797 digits of 8 x 8 pixels in ten classes.", Images, DigitsOptions,
    DataNote("1,797 images", "built in", origin="scikit-learn"), read_digits,
)  # fmt: skip
