"""Safetensors files that are written one tensor at a time and read row by row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import torch
from safetensors import safe_open
from torch import Tensor

from .weights import LocalShard

NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
CHUNK = 2**22  # bytes read at a time


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> int:
    """Write a file, flush it to the disk, and return its checksum."""
    checksum = 0
    with path.open("wb") as file:
        for data in contents(tensors):
            file.write(data)
            checksum = crc32(data, checksum)
        file.flush()
        os.fsync(file.fileno())
    return checksum


def contents(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The header's length, the header, and the tensors, brought into the host's memory one at a time. Wide types come
    first, so all are aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        x, begin = tensors[name], end
        end += x.nbytes
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield tensors[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def checksum_of(path: Path) -> int:
    """The checksum of a file: the one that `write_tensors` returned, if nothing has changed."""
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            checksum = crc32(data, checksum)
    return checksum


class Rows(NamedTuple):
    """Some rows of a tensor in a file; the first of them is row `start` of the whole tensor."""

    file: Any
    name: str
    start: int

    @property
    def shape(self) -> list[int]:
        return self.file.get_slice(self.name).get_shape()

    def copy_to(self, target: LocalShard) -> None:
        """Copy the rows that both have, and read no others."""
        if not target.shape:
            target.local.copy_(self.file.get_tensor(self.name))
            return
        begin = max(self.start, target.start)
        end = min(self.start + self.shape[0], target.start + len(target.local))
        if begin < end:
            found = self.file.get_slice(self.name)[begin - self.start : end - self.start]
            target.local[begin - target.start : end - target.start].copy_(found)


def rows_of(path: Path, starts: Mapping[str, int]) -> Iterator[Rows]:
    """The rows that a file holds. A tensor begins at row 0, unless `starts` has another number."""
    file: Any = safe_open(path, "pt")
    return (Rows(file, name, starts.get(name, 0)) for name in file.keys())  # noqa: SIM118  # not a mapping


def whole_shape(parts: Sequence[Rows]) -> list[int]:
    """The shape of a tensor whose rows are in several parts."""
    shapes = [rows.shape for rows in parts]
    return [sum(shape[0] for shape in shapes), *shapes[0][1:]] if shapes[0] else []
