"""Own images: folders and idx files, what is held out, and broken files named in one line."""

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from splitstep.tasks import task
from splitstep.tasks.own_images import open_image, pixels_of


def load(**options: Any) -> Any:
    return task("images", options)


def photos(folder: Path, classes: dict[str, int], colour: bool = True, seed: int = 0) -> str:
    """Images of noise, a folder for each class; the sizes differ."""
    random = np.random.default_rng(seed)
    for name, count in classes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            shape = (20 + i % 3, 30, 3) if colour else (20 + i % 3, 30)
            Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(folder / name / f"{i}.png")
    return str(folder)


def test_a_folder_for_each_class_is_split_by_class(tmp_path: Path) -> None:
    found = load(train=photos(tmp_path, {"cats": 20, "dogs": 30}), size=16)
    assert found.labels == ("cats", "dogs")
    assert found.describe()["classes"] == {"train": [16, 24], "valid": [2, 3], "test": [2, 3]}
    assert found.shape == {"image_size": 16, "channels": 3, "patch": 4, "labels": 2}
    batch = found.batch(0, 0, 8)
    assert batch["pixel_values"].shape == (8, 3, 16, 16)
    values = torch.cat([one["pixel_values"] for one in found.batches("train", 16)])
    assert abs(float(values.mean())) < 1e-3
    assert float(values.std()) == pytest.approx(1, abs=1e-2)


def test_images_of_16_bits_have_the_pixels_of_the_same_images_of_8(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (16, 16), dtype=np.uint8)
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / "a.png")
    assert np.array_equal(pixels_of(open_image(tmp_path / "a.png"), "L", 16), grey)


def test_pixels_are_those_that_pillow_scales(tmp_path: Path) -> None:
    found = load(train=photos(tmp_path, {"a": 12, "b": 12}), size=8)
    seen = {image.tobytes() for pixels in found.pixels.values() for image in pixels.images}
    for path in tmp_path.rglob("*.png"):
        scaled = Image.open(path).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)
        assert np.asarray(scaled).tobytes() in seen
    assert len(seen) == 24


def test_grey_files_are_read_in_grey_unless_told_otherwise(tmp_path: Path) -> None:
    folder = photos(tmp_path, {"a": 12, "b": 12}, colour=False)
    assert load(train=folder, size=8).shape["channels"] == 1
    assert load(train=folder, size=8, colour="rgb").shape["channels"] == 3


def test_shifted_colour_images_stay_in_colour(tmp_path: Path) -> None:
    found = load(train=photos(tmp_path, {"a": 12, "b": 12}), size=8, shift=2)
    assert found.batch(0, 0, 4)["pixel_values"].shape == (4, 3, 8, 8)


def write_idx(path: Path, array: np.ndarray, packed: bool = False) -> None:
    head = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", size) for size in array.shape)
    data = head + array.astype(np.uint8).tobytes()
    (path.with_name(f"{path.name}.gz") if packed else path).write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_like_those_of_fashion_mnist_are_read(packed: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (100, 28, 28)), np.arange(100) % 10
    for name, n in (("train", 100), ("t10k", 20)):
        write_idx(tmp_path / f"{name}-images-idx3-ubyte", images[:n], packed)
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte", labels[:n], packed)
    found = load(train=str(tmp_path))
    assert found.labels == tuple("0123456789")
    assert found.describe()["examples"] == {"train": 90, "valid": 10, "test": 20}
    assert found.shape == {"image_size": 28, "channels": 1, "patch": 4, "labels": 10}
    assert np.array_equal(found.pixels["test"].images, images[:20])
    assert found.remarks() == {"also in train": {"test": 20 - sum(
        image.tobytes() in {one.tobytes() for one in found.pixels["valid"].images}
        for image in images[:20].astype(np.uint8))}}  # fmt: skip


def test_without_a_folder_it_is_the_digits() -> None:
    found = load()
    assert found.describe()["examples"] == task("digits").describe()["examples"]


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


WRONG: list[tuple[Callable[[Path], Any], str]] = [
    (lambda folder: halve(folder / "cats/3.png"), r"cats/3.png is not an image, or a broken one \(.*\): repair or rem"),
    (lambda folder: (folder / "dogs/note.jpg").write_text("none"), r"dogs/note.jpg is not an image, or a broken one"),
    (lambda folder: photos(folder, {"owls": 1}), r'0.png: the class "owls" has only this example'),
    (lambda folder: {"test": photos(folder.parent / "test", {"cats": 2, "emus": 2})},
     r'0.png: the class "emus" is not in the training data'),
    (lambda folder: {"train": photos(folder.parent / "empty", {"": 0})}, "has neither images in a folder for each"),
    (lambda folder: (folder / "apes").mkdir(), r"train/apes has no images"),
    (lambda folder: {"train": "nowhere"}, r'there is no folder "nowhere"'),
    (lambda folder: {"patch": 3}, r"option patch is 3, which does not divide images of 8 pixels"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), WRONG)
def test_a_wrong_folder_is_refused_in_one_line(spoil: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    given = {"train": photos(tmp_path / "train", {"cats": 12, "dogs": 12}), "size": 8}
    changed = spoil(tmp_path / "train")
    with pytest.raises(ValueError, match=message) as error:
        load(**given | (changed if isinstance(changed, dict) else {}))
    assert "\n" not in str(error.value)
