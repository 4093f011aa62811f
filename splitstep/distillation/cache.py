"""What a teacher showed of the training texts, in memory-mapped files: written once, resumed after a kill.

A folder holds one raw file a field, [tokens, ...] of all rows one after the other, and `manifest.json`, which says
whose they are and how many rows are done. Files are little-endian arrays without a header; nothing is pickled.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from ..flows.keys import Key
from ..flows.keys import places as placed
from ..support.documents import read_json
from ..support.files import fsync, is_leftover, naming, write_atomically
from ..support.typed import plain, read_as
from ..tasks.batching import places
from ..tasks.task import Batch
from .geometry import token_weights
from .records import IDS, LOGITS, Outputs, Shape, top_k

MANIFEST, FORMAT = "manifest.json", 2
MATRIX = "output.bin"
Precision = Literal["float16", "bfloat16", "float32"]
# What to type, whichever verb it is: all of them take recipe entries, and only one has --cache.
ANOTHER = "name another --out and, if you named the cache's folder, another one with objective.cache=DIR"


class Field(NamedTuple):
    """One file: the shape of a token's entry, and the type of its numbers."""

    shape: tuple[int, ...]
    dtype: Literal["float32", "float16", "bfloat16", "int32"]

    @property
    def kind(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    @property
    def bytes(self) -> int:
        """Bytes a token."""
        return prod(self.shape) * self.kind.itemsize


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Whose cache it is: the hashes of the teacher's weights and of its tokens, and what is kept of each token.

    `files_sha256` is the hash of the files that the teacher came from, which says without loading it that it is the
    same; it is empty if there are none here.
    """

    teacher: str
    teacher_sha256: str
    files_sha256: str
    text_sha256: str
    layers: int
    width: int
    vocabulary: int
    largest: int
    precision: Precision
    rows: int
    tokens: int
    fields: dict[str, Field]
    output: tuple[int, ...] = ()  # the shape of the output matrix, if it is kept
    done: int = 0  # rows
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"its format is {self.format}, here {FORMAT}")
        if not 0 <= self.done <= self.rows:
            raise ValueError(f"{self.done} of {self.rows} rows are done")

    @property
    def keys(self) -> list[Key]:
        """What is kept of each token."""
        return [Key.read(name) for name in self.fields]

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each file."""
        found = {f"{name}.bin": self.tokens * one.bytes for name, one in self.fields.items()}
        return found | ({MATRIX: 4 * prod(self.output)} if self.output else {})

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())


def fields_for(wanted: Collection[Key], shape: Shape, largest: int, precision: Precision) -> dict[str, Field]:
    """The files that these keys need; none if the teacher is not asked. The output matrix has a file of its own."""
    kinds = {
        "states": Field((shape.width,), precision), "weights": Field((), "float32"),
        "logits": Field((largest,), precision), "ids": Field((largest,), "int32"), "tail": Field((1,), "float32"),
        "masses": Field((), "float32"), "final": Field((shape.width,), precision),
    }  # fmt: skip
    keys = {*wanted, IDS} if LOGITS in wanted else wanted
    return {str(key): kind for what, kind in kinds.items() for key in sorted(keys) if key.what == what}


def entries_of(shown: Outputs, manifest: Manifest) -> dict[str, Tensor]:
    """What a teacher shows, by the names of the files, [B, T, ...]."""
    found = dict(shown.shown)
    for layer in placed("weights", manifest.keys):
        found[Key("weights", layer)] = token_weights(shown[Key("states", layer)], shown.real)
    if LOGITS in manifest.keys:
        kept = top_k(shown[LOGITS], manifest.largest, tuple(placed("tail", manifest.keys)))
        found |= {LOGITS: kept.logits, IDS: kept.ids, **{Key("tail", t): x for t, x in kept.tails.items()}}
    return {str(key): found[key] for key in manifest.keys}


@final
class Cache:
    """A folder with what a teacher showed of the rows that begin at these `offsets` of its tokens."""

    def __init__(self, folder: Path, manifest: Manifest, offsets: np.ndarray) -> None:
        self.folder, self.manifest, self.offsets = folder, manifest, offsets
        self.maps = {name: self.mapped(f"{name}.bin", manifest.tokens, one) for name, one in manifest.fields.items()}
        self.output = self.mapped(MATRIX, 1, Field(manifest.output, "float32"))[0] if manifest.output else None

    def mapped(self, name: str, entries: int, one: Field) -> Tensor:
        """The file as a tensor; it is made if it is not there."""
        file, size = self.folder / name, entries * one.bytes
        with naming(file):
            if not file.is_file() or file.stat().st_size < size:
                with file.open("ab") as opened:  # a mapped file that finds no room later would end the process
                    os.posix_fallocate(opened.fileno(), 0, size)
            flat = torch.from_file(str(file), shared=True, size=entries * prod(one.shape), dtype=one.kind)
        return flat.view(entries, *one.shape)

    def write(self, rows: range, shown: Outputs) -> None:
        """Keep what was shown of these rows, padded right. Numbers that the precision cannot hold are refused."""
        for name, x in entries_of(shown, self.manifest).items():
            target = self.maps[name]
            for number, row in enumerate(rows):
                begin, end = int(self.offsets[row]), int(self.offsets[row + 1])
                kept = x[number, : end - begin].to("cpu", target.dtype)
                if not kept.isfinite().all():
                    why = f"does not fit into {self.manifest.precision}: use objective.precision=bfloat16, or float32"
                    if not x[number, : end - begin].isfinite().all():
                        why = "are not finite: name a teacher that works"
                    raise ValueError(f"{self.folder}: {name} of the teacher {why}")
                target[begin:end] = kept

    def finish_rows(self, done: int) -> None:
        """Note that so many rows are done, after they are on the disk."""
        for file in self.folder.glob("*.bin"):
            fsync(file)
        self.manifest = replace(self.manifest, done=done)
        write_manifest(self.folder, self.manifest)

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        """What was shown of these rows, padded with zeros to this width, by the names of the files."""
        where, mask = places(self.offsets, rows, width)
        found = {f"cache.{name}": taken(x, where, ~mask) for name, x in self.maps.items()}
        if "ids" in self.maps:
            self.check_ids(found["cache.ids"])
        return found

    def check_ids(self, ids: Tensor) -> None:
        """Refuse tokens that the teacher does not have: on a device they would be an error without a name."""
        numbers = ids.numpy().view(np.uint32)  # of which negative ones are the largest
        if numbers.size and numbers.max() >= self.manifest.vocabulary:
            raise ValueError(
                f"{self.folder / 'ids.bin'} has tokens that are not among the teacher's {self.manifest.vocabulary:,}, "
                "so the cache is damaged: delete the folder, and start the same command again"
            )


def taken(x: Tensor, where: np.ndarray, padding: np.ndarray) -> Tensor:
    """The entries of x at these places, zero at padding, copied in one call. NumPy has no bfloat16: integers stand for
    it, whose zero has the same bits."""
    other = x.dtype == torch.bfloat16
    found = (x.view(torch.int16) if other else x).numpy().take(where, 0)
    found[padding] = 0
    made = torch.from_numpy(found)
    return made.view(x.dtype) if other else made


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / MANIFEST, json.dumps(plain(manifest), indent=2) + "\n")


def text_sha256(tokens: np.ndarray, offsets: np.ndarray) -> str:
    """The hash of the teacher's tokens, row by row."""
    return hashlib.sha256(tokens.tobytes() + offsets.astype(np.int64).tobytes()).hexdigest()


def open_cache(folder: Path, wanted: Manifest, offsets: np.ndarray) -> Cache:
    """The cache in a folder, new or begun; one of another teacher, text or setting is refused, once it has a row. One
    without a row begins again: a teacher that was refused does not stand in the way of another."""
    found = read_manifest(folder) if (folder / MANIFEST).is_file() else None
    if found is not None and found.done:
        check_same(folder, found, wanted)
        check_files(folder, found)
        return Cache(folder, found, offsets)
    if found is None and folder.is_dir() and not is_cache(folder):
        raise ValueError(f"{folder} holds other files, not a teacher's cache: {ANOTHER}")
    for name in found.sizes if found else ():
        (folder / name).unlink(missing_ok=True)  # it may have another size
    write_manifest(folder, wanted)
    return Cache(folder, wanted, offsets)


def is_cache(folder: Path) -> bool:
    """Whether a folder is a teacher's cache, or one that was locked, maybe by an older version, and has no manifest
    yet."""
    if not folder.is_dir():
        return False
    locks = (one.name.startswith(".lock") or is_leftover(one) for one in folder.iterdir())
    return (folder / MANIFEST).is_file() or all(locks)


def check_files(folder: Path, found: Manifest) -> None:
    """Refuse files of another size than they were given before the first row was done."""
    for name, size in found.sizes.items():
        there = (folder / name).stat().st_size if (folder / name).is_file() else 0
        if there != size:
            raise ValueError(
                f"{folder / name} has {there:,} of {size:,} bytes, so the cache is damaged: delete the folder, or "
                f"{ANOTHER}"
            )


def read_manifest(folder: Path) -> Manifest:
    try:
        return read_as(Manifest, read_json(folder / MANIFEST), MANIFEST)
    except ValueError as error:
        raise ValueError(
            f"{folder / MANIFEST} is damaged or of another version ({error}): delete the folder, or {ANOTHER}"
        ) from None


SAME: Mapping[str, str] = {
    "teacher_sha256": "another teacher", "text_sha256": "another text", "largest": "another number of largest logits",
    "precision": "another precision",
}  # fmt: skip


def check_same(folder: Path, found: Manifest, wanted: Manifest) -> None:
    """Refuse a cache of something else, and one that lacks what the method needs."""
    for name, what in SAME.items():
        if getattr(found, name) != getattr(wanted, name):
            raise ValueError(
                f"{folder} is a cache of {what} ({name} {str(getattr(found, name))[:12]}, here "
                f"{str(getattr(wanted, name))[:12]}): {ANOTHER}"
            )
    missing = [name for name in wanted.fields if name not in found.fields]
    missing += ["output"] if wanted.output and not found.output else []
    if missing:
        raise ValueError(f"{folder} is a cache without {missing[0]}, which the method needs: {ANOTHER}")
