"""Image classification: one array of pixels and one of labels per split."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch

from ..options import at_least
from . import sampler
from .classes import Classes
from .task import Batch, check_split, hashes


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


def standardised(images: np.ndarray, standard: Standard) -> torch.Tensor:
    """Images [N, S, S] or [N, S, S, 3] as a model's inputs [N, channels, S, S]."""
    values = torch.from_numpy(images.astype(np.float32))
    values = values.unsqueeze(1) if values.ndim == 3 else values.movedim(3, 1).contiguous()
    return (values / standard.white - standard.mean) / standard.deviation


class Images(Classes):
    """An image-classification task; `pixel_values` are [B, 1, S, S], or [B, 3, S, S] in colour."""

    model: ClassVar[str] = "image"

    def _load(
        self, pixels: Mapping[str, Pixels], standard: Standard, options: ImageOptions, source: dict[str, Any]
    ) -> None:
        """Take the arrays, the options, and where the images come from."""
        self._source = source
        self._pixels, self._standard, self._options = dict(pixels), standard, options
        self._side = pixels["train"].images.shape[1]
        if self._side % options.patch:
            fits = [n for n in range(1, self._side + 1) if self._side % n == 0]
            given = f"option patch is {options.patch}, which does not divide images of {self._side} pixels"
            raise ValueError(f"{given}; choose one of {fits}")

    @property
    @final
    def shape(self) -> dict[str, int]:
        channels = 1 if self._pixels["train"].images.ndim == 3 else 3
        patch = self._options.patch
        return {"image_size": self._side, "channels": channels, "patch": patch, "labels": len(self.labels)}

    @property
    @final
    def length(self) -> int:
        """Patches in an image; a model's class token is not counted."""
        return (self._side // self._options.patch) ** 2

    @final
    def tokens(self, batch: Batch) -> int:
        return len(batch["labels"]) * self.length

    @final
    def batch(self, seed: int, step: int, size: int) -> Batch:
        images, labels = self._pixels["train"]
        rows = sampler.indices(len(labels), seed, step, size)
        chosen, shift = images[rows], self._options.shift
        if shift:
            random = sampler.generator(seed, step, sampler.AUGMENT)
            chosen = shifted(chosen, random.integers(-shift, shift, size=(size, 2), endpoint=True))
        return self._tensors(chosen, labels[rows])

    @final
    def batches(self, split: str, size: int) -> Iterator[Batch]:
        check_split(self, split)
        at_least("size", size, 1)
        images, labels = self._pixels[split]
        for first in range(0, len(labels), size):
            yield self._tensors(images[first : first + size], labels[first : first + size])

    def _tensors(self, images: np.ndarray, labels: np.ndarray) -> Batch:
        return {
            "pixel_values": standardised(images, self._standard),
            "labels": torch.from_numpy(labels.astype(np.int64)),
        }

    @final
    def save_with(self, folder: Path) -> None:
        """The image processor that turns a grey image into this task's pixels."""
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": self._side, "width": self._side},
            "do_rescale": True,
            "rescale_factor": 1 / self._standard.white,
            "do_normalize": True,
            "image_mean": self._standard.mean,  # one number, not a list: pipelines open grey images as colour ones
            "image_std": self._standard.deviation,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=2) + "\n", encoding="utf-8")

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source,
            **self._counts({split: pixels.labels for split, pixels in self._pixels.items()}),
            "sha256": hashes({split: pixels.images for split, pixels in self._pixels.items()}),
            "standard": self._standard._asdict(),
            "shift": self._options.shift,
        }
