"""Teachers: where a student finds what its teacher shows, a model beside it or a cache, and where that model is. For a
cache it reads the texts once, and then leaves the memory."""

import hashlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import replace
from errno import ENOSPC
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from ..flows.keys import Key
from ..opening import open_model
from ..opening.load import Opened
from ..opening.network import sha256_of_weights
from ..support.files import locked
from ..support.memory import NoMemory, no_memory
from ..support.words import counted
from ..tasks import Batch
from ..text.tokenizers import open_tokenizer
from ..training.directory import RunDirectory
from ..training.progress import counting
from .cache import ANOTHER, MANIFEST, Cache, Manifest, Precision, fields_for, open_cache, read_manifest, text_sha256
from .records import OUTPUT, Outputs, Shape
from .subject import Subject
from .texts import Texts, teacher_inputs

FILES = ("*.json", "*.safetensors")  # of a model's folder: all that decides what the model says
READ_AS = {"states": Tensor.float, "final": Tensor.float, "weights": Tensor.float, "ids": Tensor.long}
ROWS = 16  # of a pass of the teacher; a killed cache continues after a whole number of them
NO_ROOM = (
    "{}: the device has too little memory for the teacher to read {} rows at once: end what else runs there, and start "
    "the same command again, which continues; or lower data.length, with another --out"
)
NO_DISK = (
    "{}: the disk is full, and what the teacher shows takes {}: make room and start the same command again, or, "
    "with another --out, name another disk with objective.cache=DIR, lower objective.largest, or keep the teacher in "
    "memory with objective.cache=null"
)


class Teacher(ABC):
    """Where a student finds what its teacher shows."""

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        """What has to be in a batch of these training rows, padded to this width, beside the texts."""
        return {}

    @abstractmethod
    def show(self, batch: Batch) -> Outputs:
        """What the teacher shows of a batch."""


@final
class NoTeacher(Teacher):
    """The teacher of a method that does not ask one, such as `ce`."""

    def show(self, batch: Batch) -> Outputs:
        return Outputs(teacher_inputs(batch)[1].bool())


@final
class OnlineTeacher(Teacher):
    """A teacher that is kept beside the student, and reads each batch again. It moves to the batch's device."""

    def __init__(self, subject: Subject, wanted: Collection[Key]) -> None:
        self.subject, self.wanted = subject, wanted

    @torch.no_grad()
    def show(self, batch: Batch) -> Outputs:
        ids, mask = teacher_inputs(batch)
        if self.subject.model.device != ids.device:
            self.subject.model.to(ids.device)
        return self.subject.show(ids, mask, self.wanted)


@final
class CachedTeacher(Teacher):
    """What a cache says, without the teacher in memory."""

    def __init__(self, cache: Cache, texts: Texts) -> None:
        self.cache, self.texts = cache, texts
        self.output = None if cache.output is None else cache.output.clone()

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return self.cache.batch(rows, self.texts.sizes(width).teacher)

    def show(self, batch: Batch) -> Outputs:
        ids, mask = teacher_inputs(batch)
        if self.output is not None and self.output.device != ids.device:
            self.output = self.output.to(ids.device)
        named = {name.removeprefix("cache."): x for name, x in batch.items() if name.startswith("cache.")}
        found = {Key.read(name): x for name, x in named.items()}
        shown = {key: READ_AS[key.what](x) if key.what in READ_AS else x for key, x in found.items()}
        output = {} if self.output is None else {OUTPUT: self.output}
        return Outputs(mask.bool(), self.cache.manifest.layers, shown | output)


@final
class TeacherSource:
    """A teacher by its name, with the manifest of its complete cache if there is one in `folder`."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name, self.files_sha256 = name, files_sha256(name)
        self.kept = None
        if folder is not None and self.files_sha256 and (folder / MANIFEST).is_file():
            found = read_manifest(folder)
            complete = found.files_sha256 == self.files_sha256 and found.done == found.rows
            self.kept = found if complete else None

    @cached_property
    def opened(self) -> Opened:
        return open_model(self.name)

    @cached_property
    def subject(self) -> Subject:
        return Subject(self.opened.model.float().eval().requires_grad_(False), self.name)

    @cached_property
    def tokenizer(self) -> Any:
        return open_tokenizer(self.name) if self.kept else self.opened.needs_tokenizer()

    @property
    def shape(self) -> Shape:
        return Shape(self.kept.layers, self.kept.width) if self.kept else self.subject.shape

    @property
    def vocabulary(self) -> int:
        return self.kept.vocabulary if self.kept else self.subject.vocabulary

    @cached_property
    def weights_sha256(self) -> str:
        return self.kept.teacher_sha256 if self.kept else sha256_of_weights(self.subject.model)


def files_sha256(name: str) -> str:
    """The hash of the files of a model that is here; empty for a name on the Hub."""
    place = Path(name).expanduser()
    run = RunDirectory(place)
    folder = run.model if place.is_dir() and run.is_run() else place
    files = [place] if place.is_file() else sorted(file for kind in FILES for file in folder.glob(kind))
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as opened:
            hashlib.file_digest(opened, lambda: total)
    return total.hexdigest() if files else ""


def prints_here() -> bool:
    """Whether this is the one of several processes that prints."""
    return os.environ.get("RANK", "0") == "0"


def print_once(text: str) -> None:
    """A line on standard error, from one of several processes."""
    if prints_here():
        print(text, file=sys.stderr, flush=True)


def wanted_manifest(
    source: TeacherSource, texts: Texts, wanted: Collection[Key], largest: int, precision: Precision
) -> Manifest:
    """The cache that a method needs of a teacher and texts."""
    if not largest < source.vocabulary:
        raise ValueError(
            f"{largest} largest logits are to be kept and {source.name} has {source.vocabulary}: give fewer with "
            "objective.largest, or use --online for all"
        )
    known = texts.teacher
    return Manifest(
        teacher=source.name,
        teacher_sha256=source.weights_sha256,
        files_sha256=source.files_sha256,
        text_sha256=text_sha256(known.tokens, known.offsets),
        **source.shape._asdict(),
        vocabulary=source.vocabulary,
        largest=largest,
        precision=precision,
        rows=len(known.lengths),
        tokens=len(known.tokens),
        fields=fields_for(wanted, source.shape, largest, precision),
        output=(source.vocabulary, source.shape.width) if OUTPUT in wanted else (),
    )


def write_cache(folder: Path, source: TeacherSource, texts: Texts, wanted: Manifest) -> CachedTeacher:
    """What the complete cache says, as far as it is wanted; the teacher reads the rows that are missing."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, and a cache is a folder: {ANOTHER}")
    with locked(folder / MANIFEST):  # one process writes at a time; the others wait, and find it complete
        try:
            cache = open_cache(folder, wanted, texts.teacher.offsets)
        except OSError as error:
            if error.errno != ENOSPC:
                raise
            raise ValueError(NO_DISK.format(folder, mebibytes(wanted.bytes))) from None
        found = cache.manifest
        if found.done < found.rows:
            missing, rows = found.rows - found.done, counted(found.rows, "row")
            logits = f", {found.largest} largest logits a token" if "logits" in found.fields else ""
            size = f"{mebibytes(found.bytes)} in {found.precision}{logits}"
            print_once(f"{source.name} reads {missing:,} of {rows} once; {folder} takes {size}")
            try:
                fill(cache, source.subject, texts)
            except (RuntimeError, MemoryError) as error:
                if not no_memory(error):
                    raise
                raise NoMemory(NO_ROOM.format(source.name, ROWS)) from None
        only = replace(cache.manifest, fields=wanted.fields, output=wanted.output)  # some of the files
        return CachedTeacher(Cache(folder, only, cache.offsets), texts)


def mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


@torch.no_grad()
def fill(cache: Cache, subject: Subject, texts: Texts) -> None:
    """Write the rows that are missing, a few at a time, on a GPU if there is one."""
    wanted = set(cache.manifest.keys)
    subject.prepare(wanted)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    subject.model.to(device)
    if cache.output is not None:
        cache.output.copy_(subject.output)
    known, show = texts.teacher, counting("the teacher has read", unit="rows") if prints_here() else None
    for first in range(cache.manifest.done, cache.manifest.rows, ROWS):
        rows = range(first, min(first + ROWS, cache.manifest.rows))
        ids, mask = known.padded(np.array(rows), int(known.lengths[rows].max()), 0)
        ids, mask = torch.from_numpy(ids).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)
        cache.write(rows, subject.show(ids, mask, wanted))
        cache.finish_rows(rows.stop)
        if show is not None:
            show(rows.stop, cache.manifest.rows)
