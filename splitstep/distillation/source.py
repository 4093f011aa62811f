"""Where a teacher comes from. Its model is opened only if there is no complete cache of what it shows."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, final

from ..opening import open_model
from ..opening.load import Opened
from ..opening.network import sha256_of_weights
from ..text.open_tokenizer import open_tokenizer
from ..training.directory import RunDirectory
from .cache import MANIFEST, Manifest, read_manifest
from .records import Shape
from .subject import Subject

FILES = ("*.json", "*.safetensors")  # of a model's folder: all that decides what the model says


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
