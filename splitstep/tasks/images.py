"""Image classification: arrays of pixels and labels, one pair a split."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch

from splitstep.tasks import sampler
from splitstep.tasks.classes import Classes
from splitstep.tasks.options import at_least
from splitstep.tasks.task import Batch, check_split


class Pixels(NamedTuple):
    """Square grey images [N, S, S] of whole numbers, and their classes [N]."""

    images: np.ndarray
    labels: np.ndarray


class Standard(NamedTuple):
    """How pixels become numbers: divide by `white`, take off `mean`, divide by `deviation`."""

    white: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class ImageOptions:
    """`patch`: pixels along a patch's side; `shift`: pixels by which training images move each way."""

    patch: int
    shift: int = 0

    def __post_init__(self) -> None:
        at_least("patch", self.patch, 1)
        at_least("shift", self.shift, 0)


def shifted(images: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Images [N, S, S] moved by moves [N, 2] pixels (down, right), with black where nothing was."""
    reach = int(np.abs(moves).max(initial=0))
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach)))
    side = np.arange(images.shape[1])
    rows = reach - moves[:, 0, None] + side
    columns = reach - moves[:, 1, None] + side
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]


class Images(Classes):
    """An image-classification task; `pixel_values` are [B, 1, S, S]."""

    model: ClassVar[str] = "image"

    def _load(self, pixels: Mapping[str, Pixels], standard: Standard, labels: int, options: ImageOptions) -> None:
        """Take the arrays."""
        self._pixels, self._standard, self._labels = dict(pixels), standard, labels
        self._patch, self._shift = options.patch, options.shift
        side, patch = self._side, options.patch
        if side % patch:
            fits = [n for n in range(1, side + 1) if side % n == 0]
            raise ValueError(
                f"option patch is {patch}, which does not divide images of {side} pixels; choose of {fits}"
            )

    @property
    def _side(self) -> int:
        return self._pixels["train"].images.shape[1]

    @property
    @final
    def shape(self) -> dict[str, int]:
        return {"image_size": self._side, "channels": 1, "patch": self._patch, "labels": self._labels}

    @property
    @final
    def length(self) -> int:
        """Patches in an image; a class token that a model puts before them is not counted."""
        return (self._side // self._patch) ** 2

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        images, labels = self._pixels["train"]
        rows = sampler.indices(len(labels), seed, step, size)
        chosen = images[rows]
        if self._shift:
            random = sampler.generator(seed, step, sampler.AUGMENT)
            chosen = shifted(chosen, random.integers(-self._shift, self._shift, size=(size, 2), endpoint=True))
        return self._tensors(chosen, labels[rows])

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        check_split(self, split)
        at_least("size", size, 1)
        images, labels = self._pixels[split]
        for first in range(0, len(labels), size):
            yield self._tensors(images[first : first + size], labels[first : first + size])

    def _tensors(self, images: np.ndarray, labels: np.ndarray) -> Batch:
        white, mean, deviation = self._standard
        values = torch.from_numpy(images.astype(np.float32)).unsqueeze(1)
        return {
            "pixel_values": (values / white - mean) / deviation,
            "labels": torch.from_numpy(labels.astype(np.int64)),
        }

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source(),
            "examples": {split: len(pixels.labels) for split, pixels in self._pixels.items()},
            "classes": {
                split: np.bincount(pixels.labels, minlength=self._labels).tolist()
                for split, pixels in self._pixels.items()
            },
            "sha256": {
                split: hashlib.sha256(np.ascontiguousarray(pixels.images).data).hexdigest()
                for split, pixels in self._pixels.items()
            },
            "standard": self._standard._asdict(),
            "shift": self._shift,
        }

    @abstractmethod
    def _source(self) -> dict[str, Any]:
        """Where the images come from."""
