"""Image classification: one array of pixels and one of labels per split."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from ..options import at_least
from .batching import AUGMENT, Chosen, Epochs, generator
from .measures import CLASSES
from .task import Arrays, Batch, Data, Task, also_in, class_counts, hashes


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
        self.batching = Epochs({split: len(one.labels) for split, one in self.pixels.items()}, patches)
        if self._side % options.patch:
            fits = [n for n in range(1, self._side + 1) if self._side % n == 0]
            given = f"option patch is {options.patch}, which does not divide images of {self._side} pixels"
            raise ValueError(f"{given}; choose one of {fits}")

    @property
    @final
    def shape(self) -> dict[str, int]:
        channels = 1 if self.pixels["train"].images.ndim == 3 else 3
        patch = self.options.patch
        return {"image_size": self._side, "channels": channels, "patch": patch, "labels": len(self.labels)}

    @final
    def tokens(self, batch: Batch) -> int:
        return len(batch["labels"]) * self.length

    @final
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

    @final
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

    @final
    def oddities(self) -> dict[str, dict[str, int]]:
        """Only of one's own images: those of published sets are what they are."""
        if not self.data.more.get("own"):
            return {}
        texts = {split: [image.tobytes() for image in one.images] for split, one in self.pixels.items()}
        return {"also in train": also_in(set(texts["train"]), texts)}

    @final
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
