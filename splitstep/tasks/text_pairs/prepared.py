"""Prepared parallel text in the cache: subwords, token ids that are read from disk as needed, and what was left out."""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from splitstep.tasks.cache import cache_root, key
from splitstep.tasks.text_pairs.codec import Codec, Form, learn
from splitstep.tasks.text_pairs.lines import Lines, chosen, folded
from splitstep.tasks.text_pairs.moses import keep_by_length

FORMAT = 5
"""Of the cache: another number makes everything anew."""
MANIFEST = "manifest.json"
HELD_TOKENS = 2048
"""The longest side of a held-out pair, unless training takes longer ones: far longer than any of the published test
sets. The time that a translation takes grows with the square of the length."""
Side = Literal["source", "target"]
Files = dict[str, list[tuple[str, str]]]
"""Name and hash of a split's files in their order: two may have one name, and source and target are not the same."""


class Part(NamedTuple):
    """One split before preparation: the files it comes from, and how to read it."""

    files: tuple[Path, ...]
    read: Callable[[], Lines]


class Limits(NamedTuple):
    """What training leaves out: pairs with more words than `words` or a length ratio above `ratio`, and pairs with more
    subwords on either side than `tokens`. Held-out splits are kept whole, but for pairs that would take for ever."""

    words: int | None
    ratio: float | None
    tokens: int

    def most(self, split: str) -> int:
        """The subwords of the longer side of a pair, at most."""
        return self.tokens if split == "train" else max(self.tokens, HELD_TOKENS)


class Ragged(NamedTuple):
    """N sequences one after another: number i is tokens[offsets[i]:offsets[i + 1]]."""

    tokens: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence, its end included [N]."""
        return np.diff(self.offsets)


class Pairs(NamedTuple):
    """One split as token ids."""

    source: Ragged
    target: Ragged

    @property
    def lengths(self) -> np.ndarray:
        """The longer side of each pair [N]."""
        return np.maximum(self.source.lengths, self.target.lengths)


class Prepared(NamedTuple):
    """All splits of a task, its subwords, and counts of what was read and left out."""

    folder: Path
    codec: Codec
    pairs: dict[str, Pairs]
    counts: dict[str, dict[str, int]]
    files: Files
    hashes: dict[str, str]  # of the prepared files

    def text(self, split: str) -> Lines:
        """The lines of a held-out split, as its files have them."""

        def column(side: str) -> list[str]:
            return (self.folder / f"{split}.{side}.txt").read_bytes().decode().split("\n")[:-1]

        has_plain = (self.folder / f"{split}.plain.txt").is_file()
        return Lines(column("source"), column("target"), column("plain") if has_plain else None)


def prepare(
    task: str,
    parts: Mapping[str, Part],
    form: Form,
    merges: int,
    limits: Limits,
    limit: int | None,
    more: object = None,
) -> Prepared:
    """The prepared text, from the cache where it is there and whole; `limit` takes the first training pairs only."""
    files = {split: [(path.name, digest(path)) for path in part.files] for split, part in parts.items()}
    asked = {"form": dataclasses.asdict(form), "merges": merges, "limits": limits._asdict(), "limit": limit}
    folder = cache_root() / "translation" / f"{task}-{key({'format': FORMAT, 'files': files, **asked, 'more': more})}"
    found = load(folder, files)
    if found is None:
        make(folder, task, parts, form, merges, limits, limit)
        found = load(folder, files)
        assert found is not None, folder
    return found


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load(folder: Path, files: Files) -> Prepared | None:
    """What a folder of the cache holds, every file checked against its hash, or nothing where one is not right."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if any(digest(folder / name) != wanted for name, wanted in manifest["files"].items()):
            return None
        pairs = {split: Pairs(ragged(folder, split, "source"), ragged(folder, split, "target")) for split in files}
        return Prepared(folder, Codec.load(folder), pairs, manifest["counts"], files, manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ragged(folder: Path, split: str, side: Side) -> Ragged:
    return Ragged(*(np.load(folder / f"{split}.{side}.{what}.npy", mmap_mode="r") for what in ("tokens", "offsets")))


def make(
    folder: Path, task: str, parts: Mapping[str, Part], form: Form, merges: int, limits: Limits, limit: int | None
) -> None:
    """Prepare everything into a folder that appears only once it is whole."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    except OSError as error:
        raise ValueError(
            f"cannot write to {folder.parent} ({error.strerror}); set SPLITSTEP_CACHE to a folder that can be written"
        ) from None
    try:
        counts = write(part, task, parts, form, merges, limits, limit)
        hashes = {path.name: digest(path) for path in sorted(part.iterdir())}
        (part / MANIFEST).write_text(json.dumps({"files": hashes, "counts": counts}), encoding="utf-8")
        part.chmod(0o755)
        if folder.exists():  # it is damaged, or another process was quicker: ours is as good
            shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)
    except OSError as error:
        if not (folder / MANIFEST).is_file():
            raise ValueError(
                f"cannot write {folder} ({error.strerror}); set SPLITSTEP_CACHE to another folder"
            ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write(
    folder: Path, task: str, parts: Mapping[str, Part], form: Form, merges: int, limits: Limits, limit: int | None
) -> dict[str, dict[str, int]]:
    """All files of the cache but the manifest; the counts of each split."""
    counts: dict[str, dict[str, int]] = {}
    codec: Codec | None = None
    learnt = np.empty(0, np.int64)
    for split in sorted(parts, key=lambda name: name != "train"):  # training text first: subwords are learnt from it
        given = parts[split].read()
        lines, counts[split] = without_empty(given)
        source = form.prepare_files(lines.source, form.source)
        target = form.prepare_files(lines.target, form.target)
        if split == "train":
            source, target = shortened(source, target, limits, limit, counts[split])
            require_pairs(task, split, len(source), counts[split])
            codec = learn(source, target, form, merges)
            codec.save(folder)
        require_pairs(task, split, len(source), counts[split])
        assert codec is not None, parts
        flat = codec.encode_flat(source), codec.encode_flat(target)
        keep = np.maximum(*(np.diff(offsets) for _, offsets in flat)) <= limits.most(split)
        counts[split]["too_many_tokens"] = int((~keep).sum())
        require_pairs(task, split, int(keep.sum()), counts[split])
        if not keep.all():
            flat = selected(flat[0], keep), selected(flat[1], keep)
        hashes = hashed(compress(source, keep), compress(target, keep))
        if split == "train":
            learnt = hashes
        else:
            counts[split]["in_train"] = int(np.isin(hashes, learnt).sum())
            write_text(folder, split, lines if keep.all() else chosen(lines, np.flatnonzero(keep).tolist()))
        for side, (tokens, offsets) in zip(("source", "target"), flat, strict=True):
            np.save(folder / f"{split}.{side}.tokens.npy", tokens)
            np.save(folder / f"{split}.{side}.offsets.npy", offsets)
        counts[split]["kept"] = len(flat[0][1]) - 1
    return counts


def without_empty(lines: Lines) -> tuple[Lines, dict[str, int]]:
    """The pairs of which both sides have text, and the counts so far."""
    rows = [row for row, pair in enumerate(zip(lines.source, lines.target, strict=True)) if all(map(str.strip, pair))]
    read = len(lines.source)
    kept = lines if len(rows) == read else chosen(lines, rows)
    return kept, {**lines.notes, "read": read, "empty": read - len(rows)}


def shortened(
    source: Sequence[str], target: Sequence[str], limits: Limits, limit: int | None, counts: dict[str, int]
) -> tuple[list[str], list[str]]:
    """Training pairs within the limits on words; counts what is left out."""
    counts["over_limit"] = 0 if limit is None else max(0, len(source) - limit)
    pairs = list(zip(source[:limit], target[:limit], strict=True))
    longest = limits.words if limits.words is not None else max(map(len, (*source, *target)), default=1)
    short = [pair for pair in pairs if keep_by_length(*pair, longest, None)]
    kept = [pair for pair in short if keep_by_length(*pair, longest, limits.ratio)]
    counts["too_many_words"], counts["unequal_length"] = len(pairs) - len(short), len(short) - len(kept)
    return [one for one, _ in kept], [two for _, two in kept]


def hashed(source: Iterable[str], target: Iterable[str]) -> np.ndarray:
    """A number for each pair [N]; equal sentences have equal ones, others by the rarest chance."""
    pairs = zip(map(folded, source), map(folded, target), strict=True)
    return np.fromiter(map(hash, pairs), np.int64)


Flat = tuple[np.ndarray, np.ndarray]


def selected(flat: Flat, keep: np.ndarray) -> Flat:
    tokens, offsets = flat
    lengths = np.diff(offsets)
    kept = np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int64)
    return tokens[np.repeat(keep, lengths)], kept


def write_text(folder: Path, split: str, lines: Lines) -> None:
    """The text of a held-out split, to translate from and to score against."""
    for side, column in (("source", lines.source), ("target", lines.target), ("plain", lines.plain)):
        if column is not None:
            (folder / f"{split}.{side}.txt").write_bytes("".join(f"{line}\n" for line in column).encode())


def require_pairs(task: str, split: str, kept: int, counts: Mapping[str, Any]) -> None:
    """Refuse a split of which nothing remains."""
    if kept < 1:
        why = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise ValueError(f'task "{task}": no pair of the {split} split remains ({why}); give more text or wider limits')
