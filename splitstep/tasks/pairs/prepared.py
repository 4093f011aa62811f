"""Prepared parallel text in the cache: subwords, token ids read from disk as needed, and counts of what is left out."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...options import at_least
from ...support.files import cache_root
from ...text.lines import Lines, chosen, folded, read_pairs
from ...text.moses import keep_by_length
from ...text.splits import SPLITS
from ..batching import TokenRows, check_buckets
from ..cache import derived_folder, digest, key, read_manifest
from ..task import Data
from .codec import Codec, Search, TextForm, learn

FORMAT = 5  # the version of the cache; another number makes everything anew
HELD_TOKENS = 2048
"""The most tokens on one side of a held-out pair, unless training takes longer ones: far more than the published test
sets have. The time that a translation takes grows with the square of the length."""
Files = dict[str, list[tuple[str, str]]]
"""Name and hash of each split's files, in order: source comes before target, and two files may have the same name."""


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """What all translation tasks take.

    `direction`: source and target language. `merges`: of the joint byte-pair encoding. `words`, `ratio`, `longest`:
    training leaves out pairs with more words, a larger length ratio, more subwords; what is left out is counted.
    `buckets`: padded lengths; by default the five that waste least. `limit`: the most training pairs. `beams`,
    `length_penalty`: of the beam search; scores are divided by this power of the length.
    """

    direction: str = "en-de"
    merges: int = 10_000
    words: int | None = None
    ratio: float | None = None
    longest: int = 256
    buckets: tuple[int, ...] = ()
    limit: int | None = None
    beams: int = 5
    length_penalty: float = 1.0

    LEAST: ClassVar[dict[str, int]] = {"merges": 0, "words": 1, "longest": 2, "limit": 1}

    def __post_init__(self) -> None:
        for name, low in self.LEAST.items():
            at_least(name, getattr(self, name), low)
        if self.ratio is not None and not self.ratio >= 1:
            raise ValueError(f"option ratio is {self.ratio}, and needs at least 1, e.g. 1.5")
        check_buckets(self.buckets)
        Search(self.beams, self.length_penalty)  # refuses wrong values

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        source, _, target = self.direction.partition("-")
        return source, target

    @property
    def search(self) -> Search:
        """The beam search that the options describe."""
        return Search(self.beams, self.length_penalty)

    @property
    def most_tokens(self) -> int:
        """The most subwords on the longer side of a training pair; the last bucket is a limit, too."""
        return min((self.longest, *self.buckets[-1:]))


@dataclass(frozen=True, kw_only=True)
class PlainOptions(PairOptions):
    """What tasks on untokenised text take besides.

    `tokens`: "moses" splits words from punctuation as the papers do, "plain" leaves that to the subwords; `lower`:
    lower-case the text.
    """

    tokens: Literal["plain", "moses"] = "plain"
    lower: bool = False

    @property
    def form(self) -> TextForm:
        """The form of the text before it is split into subwords."""
        return TextForm(*self.languages, self.tokens, self.lower)


class Part(NamedTuple):
    """One split before preparation: the files it comes from, and how to read it."""

    files: tuple[Path, ...]
    read: Callable[[], Lines]


def pair_part(*files: Path) -> Part:
    """A split that is two files, line by line."""
    return Part(files, partial(read_pairs, *files))


def split_parts(files: tuple[Path, ...], read: Callable[[], Mapping[str, Lines]]) -> dict[str, Part]:
    """Splits that come from the same files, which are read only once."""
    once = cache(read)
    return {split: Part(files, lambda split=split: once()[split]) for split in SPLITS}


class Pairs(NamedTuple):
    """One split as token ids."""

    source: TokenRows
    target: TokenRows

    @property
    def lengths(self) -> np.ndarray:
        """The longer side of each pair [N]."""
        return np.maximum(self.source.lengths, self.target.lengths)


class Prepared(NamedTuple):
    """All splits of a task, its codec, and counts of what was read and left out."""

    folder: Path
    codec: Codec
    pairs: dict[str, Pairs]
    counts: dict[str, dict[str, int]]
    files: Files
    hashes: dict[str, str]  # of the prepared files

    def text(self, split: str) -> Lines:
        """The lines of a held-out split, as in its files."""

        def column(side: str) -> list[str]:
            return (self.folder / f"{split}.{side}.txt").read_bytes().decode().split("\n")[:-1]

        has_plain = (self.folder / f"{split}.plain.txt").is_file()
        return Lines(column("source"), column("target"), column("plain") if has_plain else None)


def prepare(task: str, options: "PairOptions", data: Data) -> Prepared:
    """The prepared text of a task, from the cache if it is there and undamaged."""
    files = {split: [(path.name, digest(path)) for path in part.files] for split, part in data.splits.items()}
    limits = {"words": options.words, "ratio": options.ratio, "tokens": options.most_tokens}
    parameters = {
        "format": FORMAT, "files": files, "form": dataclasses.asdict(data.reader), "merges": options.merges,
        "limits": limits, "limit": options.limit, "more": data.more.get("cached"),
    }  # fmt: skip
    folder = cache_root() / "translation" / f"{task}-{key(parameters)}"
    return derived_folder(folder, partial(load, files=files), lambda part: {"counts": write(part, task, options, data)})


def load(folder: Path, files: Files) -> Prepared | None:
    """The prepared text in a folder of the cache, or None if a file is missing or does not match its hash."""
    try:
        manifest = read_manifest(folder)
        pairs = {}
        for split in files:
            names = [[f"{split}.{side}.{what}.npy" for what in ("tokens", "offsets")] for side in Pairs._fields]
            pairs[split] = Pairs(*(TokenRows(*(np.load(folder / n, mmap_mode="r") for n in own)) for own in names))
        return Prepared(folder, Codec.load(folder), pairs, manifest["counts"], files, manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, task: str, options: "PairOptions", data: Data) -> dict[str, dict[str, int]]:
    """Write all files but the manifest, and return the counts of each split."""
    form: TextForm = data.reader
    counts: dict[str, dict[str, int]] = {}
    codec: Codec | None = None
    in_train = np.empty(0, np.int64)
    for split in sorted(data.splits, key=lambda name: name != "train"):  # subwords are learned from training text
        lines, counts[split] = without_empty(data.splits[split].read())
        source = form.prepare_files(lines.source, form.source)
        target = form.prepare_files(lines.target, form.target)
        if split == "train":
            source, target = shortened(source, target, options, counts[split])
        require_pairs(task, split, len(source), counts[split])
        codec = codec or learn(source, target, form, options.merges)
        pairs = Pairs(codec.encode_flat(source), codec.encode_flat(target))
        keep = pairs.lengths <= (options.most_tokens if split == "train" else max(options.most_tokens, HELD_TOKENS))
        counts[split]["too_many_tokens"] = int((~keep).sum())
        require_pairs(task, split, int(keep.sum()), counts[split])
        if not keep.all():
            pairs = Pairs(selected(pairs.source, keep), selected(pairs.target, keep))
        hashes = hashed(compress(source, keep), compress(target, keep))
        if split == "train":
            in_train = hashes
        else:
            counts[split]["in_train"] = int(np.isin(hashes, in_train).sum())
            write_text(folder, split, lines if keep.all() else chosen(lines, np.flatnonzero(keep).tolist()))
        for side, ids in pairs._asdict().items():
            np.save(folder / f"{split}.{side}.tokens.npy", ids.tokens)
            np.save(folder / f"{split}.{side}.offsets.npy", ids.offsets)
        counts[split]["kept"] = len(pairs.lengths)
    assert codec is not None, data.splits
    codec.save(folder)
    return counts


def without_empty(lines: Lines) -> tuple[Lines, dict[str, int]]:
    """The pairs with text on both sides, and the counts so far."""
    rows = [row for row, pair in enumerate(zip(lines.source, lines.target, strict=True)) if all(map(str.strip, pair))]
    read = len(lines.source)
    kept = lines if len(rows) == read else chosen(lines, rows)
    return kept, {**lines.notes, "read": read, "empty": read - len(rows)}


def shortened(
    source: Sequence[str], target: Sequence[str], options: "PairOptions", counts: dict[str, int]
) -> tuple[list[str], list[str]]:
    """The training pairs within the limits; adds what is left out to `counts`."""
    limit = options.limit
    counts["over_limit"] = 0 if limit is None else max(0, len(source) - limit)
    pairs = list(zip(source[:limit], target[:limit], strict=True))
    longest = options.words if options.words is not None else max(map(len, (*source, *target)), default=1)
    short = [pair for pair in pairs if keep_by_length(*pair, longest, None)]
    kept = [pair for pair in short if keep_by_length(*pair, longest, options.ratio)]
    counts["too_many_words"], counts["unequal_length"] = len(pairs) - len(short), len(short) - len(kept)
    return [one for one, _ in kept], [two for _, two in kept]


def hashed(source: Iterable[str], target: Iterable[str]) -> np.ndarray:
    """A hash of each pair [N]."""
    pairs = zip(map(folded, source), map(folded, target), strict=True)
    return np.fromiter(map(hash, pairs), np.int64)


def selected(ids: TokenRows, keep: np.ndarray) -> TokenRows:
    """The sequences to keep."""
    return TokenRows(ids.tokens[np.repeat(keep, ids.lengths)], np.cumsum([0, *ids.lengths[keep]], dtype=np.int64))


def write_text(folder: Path, split: str, lines: Lines) -> None:
    """Write the text of a held-out split, to translate and to score against."""
    for side, column in (("source", lines.source), ("target", lines.target), ("plain", lines.plain)):
        if column is not None:
            (folder / f"{split}.{side}.txt").write_bytes("".join(f"{line}\n" for line in column).encode())


def require_pairs(task: str, split: str, kept: int, counts: Mapping[str, Any]) -> None:
    """Refuse a split of which no pair remains."""
    if kept < 1:
        why = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise ValueError(f'task "{task}": no pair of the {split} split remains ({why}); give more text or wider limits')
