"""Teachers: where a student finds what its teacher shows, a model beside it or a cache, and where that model is."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from ..flows.keys import Key
from ..opening import open_model
from ..opening.load import Opened
from ..opening.network import sha256_of_weights
from ..tasks import Batch
from ..text.open_tokenizer import open_tokenizer
from ..training.directory import RunDirectory
from .cache import MANIFEST, Cache, Manifest, outputs_of, read_manifest
from .records import Outputs, Shape
from .subject import Subject
from .texts import Texts, teacher_inputs

FILES = ("*.json", "*.safetensors")  # of a model's folder: all that decides what the model says


class Teacher(ABC):
    """Where a student finds what its teacher shows."""

    @abstractmethod
    def batch(self, rows: np.ndarray, width: int) -> Batch:
        """What has to be in a batch of these training rows, padded to this width."""

    @abstractmethod
    def show(self, batch: Batch) -> Outputs:
        """What the teacher shows of a batch."""


@final
class NoTeacher(Teacher):
    """The teacher of a method that does not ask one, such as `ce`."""

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

    def show(self, batch: Batch) -> Outputs:
        return Outputs(teacher_inputs(batch)[1].bool())


@final
class OnlineTeacher(Teacher):
    """A teacher that is kept beside the student, and reads each batch again. It moves to the batch's device."""

    def __init__(self, subject: Subject, wanted: Collection[Key]) -> None:
        self.subject, self.wanted = subject, wanted

    def batch(self, rows: np.ndarray, width: int) -> Batch:
        return {}

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
        return outputs_of(batch, mask.bool(), self.cache.manifest.layers, self.output)


@final
class TeacherSource:
    """A teacher by its name, with the manifest of its complete cache if there is one in `folder`."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.name, self.files_sha256 = name, files_sha256(name)
        self.kept = None if folder is None else complete_manifest(folder, self.files_sha256)

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


def complete_manifest(folder: Path, files: str) -> Manifest | None:
    """The manifest of a complete cache of a teacher with these files; else None."""
    if not files or not (folder / MANIFEST).is_file():
        return None
    found = read_manifest(folder)
    return found if found.files_sha256 == files and found.done == found.rows else None
