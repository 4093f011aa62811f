"""A teacher that reads the texts once: what it shows is written to a cache, and then it leaves the memory."""

import os
import sys
from collections.abc import Collection
from errno import ENOSPC
from pathlib import Path

import numpy as np
import torch

from ..flows.keys import Key
from ..support.files import locked
from ..support.memory import NoMemory, no_memory
from ..support.words import counted
from ..tasks.batching import padded
from ..training.progress import counting
from .cache import ANOTHER, MANIFEST, Cache, Manifest, Precision, fields_for, open_cache, text_sha256
from .records import OUTPUT
from .subject import Subject
from .teacher import TeacherSource
from .texts import Texts

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


def write_cache(folder: Path, source: TeacherSource, texts: Texts, wanted: Manifest) -> Cache:
    """The complete cache, as far as it is wanted; the teacher reads the rows that are missing."""
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
            print_once(f"{source.name} reads {missing:,} of {rows} once; {folder} takes {size_of(found)}")
            try:
                fill(cache, source.subject, texts)
            except (RuntimeError, MemoryError) as error:
                if not no_memory(error):
                    raise
                raise NoMemory(NO_ROOM.format(source.name, ROWS)) from None
        return cache.only(wanted)


def size_of(manifest: Manifest) -> str:
    """What a cache takes and in which precision, for people."""
    logits = f", {manifest.largest} largest logits a token" if "logits" in manifest.fields else ""
    return f"{mebibytes(manifest.bytes)} in {manifest.precision}{logits}"


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
        ids, mask = padded(known.tokens, known.offsets, np.array(rows), int(known.lengths[rows].max()), 0)
        ids, mask = torch.from_numpy(ids).to(device), torch.from_numpy(mask.astype(np.int64)).to(device)
        cache.write(rows, subject.show(ids, mask, wanted))
        cache.finish_rows(rows.stop)
        if show is not None:
            show(rows.stop, cache.manifest.rows)
