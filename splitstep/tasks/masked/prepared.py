"""Prepared text in the cache: its subwords, and for each split full rows of tokens that are read from disk as needed.

The text is read three times, part by part: to count it, to learn subwords, to write rows. A fourth time it is searched
for copies of held-out documents, if these have files of their own.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...support.files import cache_root
from ...support.words import counted
from ...text.documents import Chunk
from ...text.splits import HELD, SPLITS, Extent, SplitPart, count_copies, extent, split, split_documents
from ...text.subwords import UNK, Kind, Texts, continues, learn
from ...text.tokenizers import TOKENIZER, write_tokenizer
from .. import batching
from ..cache import derived_folder, key, read_manifest
from .packing import Packer, PairPacker, SentenceFile, Sentences, row_type, sentences_of

FORMAT = 1  # to be raised if the same text gives other rows, so that no old cache is read
BATCH = 1 << 22  # characters that are encoded at a time
SAMPLE = 1 << 16  # characters on which a given tokenizer is tried
EVERY = 10.0  # seconds between two signs of life


TextFactory = Callable[[], Iterator[Chunk]]  # a text from its beginning, as often as it is called


class TextSpec(NamedTuple):
    """What to prepare: the parts of a text, what tells it from other texts, and the form of its rows. `own`: text for
    some of the held-out splits; the others are held out of the text. `tokenizer`: one that is there already, as JSON;
    without it, subwords are learnt."""

    task: str
    parts: TextFactory
    source: dict[str, Any]
    subwords: Kind
    vocab_size: int
    length: int
    next_sentence: bool
    own: Mapping[str, TextFactory]
    tokenizer: str | None

    def split(self, whole: Extent, doing: str) -> Iterator[SplitPart]:
        """The parts of all splits; `doing`: what for."""
        parts = told(self.parts(), f"{self.task}: {doing}", whole.characters)
        yield from split(parts, whole, [name for name in HELD if name not in self.own])
        for name, read in self.own.items():
            yield from (part._replace(split=name) for part in split_documents(read(), {}))


def told(parts: Iterable[Chunk], doing: str, total: int = 0) -> Iterator[Chunk]:
    """The parts; every ten seconds a line on standard error says how far they are read."""
    read, last = 0, time.monotonic()
    for part in parts:
        yield part
        read += len(part.text)
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            print(f"{doing}, {read:,}{f' of {total:,}' * bool(total)} characters", file=sys.stderr, flush=True)


class Prepared(NamedTuple):
    """Rows [N, length] of each split, the file of the tokenizer, and what the manifest says."""

    folder: Path
    rows: dict[str, np.ndarray]
    manifest: dict[str, Any]

    @property
    def tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.folder / TOKENIZER))

    @property
    def next_sentence(self) -> bool:
        """Whether pieces are pairs of texts."""
        return self.manifest.get("next_sentence", False)

    @property
    def most_pairs(self) -> int:
        """The most pairs in a row, and at least one."""
        return max(1, *(one.get("most_pairs", 0) for one in self.manifest["splits"].values()))


def prepare(wanted: TextSpec) -> Prepared:
    """The prepared text, from the cache if it is there and undamaged."""
    parameters = {"format": FORMAT, **wanted._asdict()}
    del parameters["parts"], parameters["own"]  # `source` tells them apart
    if not wanted.next_sentence:  # the names of folders are older than this option
        del parameters["next_sentence"]
    if wanted.tokenizer is None:
        del parameters["tokenizer"]
    folder = cache_root() / "text" / f"{wanted.task}-{key(parameters)}"
    form = {"source": wanted.source, "subwords": wanted.subwords, "vocab_size": wanted.vocab_size}
    form |= {"next_sentence": True} if wanted.next_sentence else {}
    form |= {"format": FORMAT, "length": wanted.length}
    return derived_folder(folder, load, lambda part: form | write(part, wanted))


def load(folder: Path) -> Prepared | None:
    """The prepared text in a folder, or None if a file is missing or does not match its hash."""
    try:
        manifest = read_manifest(folder)
        dtype, length = row_type(manifest["vocab_size"]), manifest["length"]
        shapes = {name: (one["rows"], length) for name, one in manifest["splits"].items()}
        rows = {name: np.memmap(folder / f"{name}.rows", dtype, "r", shape=shape) for name, shape in shapes.items()}
        return Prepared(folder, dict(rows), manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(folder: Path, wanted: TextSpec) -> dict[str, Any]:
    """Write all files but the manifest, and return the counts."""
    whole = extent(told(wanted.parts(), f"{wanted.task}: counting the text"))

    def training() -> Iterator[str]:
        return (part.text for name, part, _ in wanted.split(whole, "learning subwords") if name == "train")

    if not any(True for _ in training()):
        raise ValueError(
            f'task "{wanted.task}": the files hold {counted(whole.characters, "character")} of text; give more'
        )
    tokenizer = given_or_learnt(wanted, training, whole)
    write_tokenizer(folder, tokenizer)
    write_splits = write_pairs if wanted.next_sentence else write_rows
    splits = write_splits(folder, wanted, tokenizer, whole)
    for name, counts in splits.items():
        if not counts["rows"]:
            raise ValueError(
                f'task "{wanted.task}": the {name} split has {counted(counts["tokens"], "token")}, which do not fill a '
                f"row of {wanted.length}; give more text or a smaller data.length"
            )
    if wanted.own:
        copies = count_copies(wanted.parts(), {name: read() for name, read in wanted.own.items()})
        for name, count in copies.items():
            splits[name]["also_in_train"] = count
    total = [whole, *(extent(read()) for read in wanted.own.values())]
    counts = {"documents": sum(one.documents for one in total), "characters": sum(one.characters for one in total)}
    return {**counts, "splits": splits}


def given_or_learnt(wanted: TextSpec, training: Texts, whole: Extent) -> Any:
    if wanted.tokenizer is None:
        return learn(wanted.subwords, wanted.vocab_size, training, whole.characters)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(wanted.tokenizer)
    ids = tokenizer.encode(next(training())[:SAMPLE], add_special_tokens=False).ids
    if 2 * ids.count(UNK) > len(ids):
        raise ValueError(
            f'task "{wanted.task}": the given tokenizer does not know {ids.count(UNK) / len(ids):.0%} of the words of '
            "the text; leave data.tokenizer out to learn new subwords, and start from random weights"
        )
    return tokenizer


def write_rows(folder: Path, wanted: TextSpec, tokenizer: Any, whole: Extent) -> dict[str, dict[str, int]]:
    """Write the rows of all splits, and return how many there are."""
    dtype, documents = row_type(wanted.vocab_size), dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.rows").open("wb")) for name in SPLITS}
        packers = {name: Packer(file, wanted.length, dtype) for name, file in files.items()}
        for (name, part, _), ids in encoded(tokenizer, wanted.split(whole, "writing rows"), lambda text: [text], dtype):
            packers[name].add(ids[0], part.first)
            documents[name] += part.first
        for packer in packers.values():
            packer.finish()
    return {
        name: {"rows": packer.rows, "tokens": packer.tokens, "documents": documents[name]}
        for name, packer in packers.items()
    }


def write_pairs(folder: Path, wanted: TextSpec, tokenizer: Any, whole: Extent) -> dict[str, dict[str, int]]:
    """Write the rows of all splits as pairs of texts: first the tokens, since any document may be the other one."""
    dtype = row_type(wanted.vocab_size)
    with ExitStack() as stack:
        opened = {name: stack.enter_context((folder / f"{name}.tokens").open("wb")) for name in SPLITS}
        files = {name: SentenceFile(file, dtype) for name, file in opened.items()}
        parts = wanted.split(whole, "writing pairs")
        for (name, part, document), sentences in encoded(tokenizer, parts, sentences_of, dtype):
            files[name].add(part.first, document, sentences)
    inside = continues(tokenizer)
    counts = {name: pack_pairs(folder, wanted, name, file.read(), inside) for name, file in files.items()}
    for name in SPLITS:
        (folder / f"{name}.tokens").unlink()
    return counts


def pack_pairs(folder: Path, wanted: TextSpec, name: str, texts: Sentences, inside: np.ndarray) -> dict[str, int]:
    """Write the rows of one split; `inside`: which subwords go on with a word."""
    with (folder / f"{name}.rows").open("wb") as file:
        packer = Packer(file, wanted.length, row_type(wanted.vocab_size))
        random = batching.generator(0, 0, batching.PAIRS, SPLITS.index(name))
        pairs = PairPacker(texts, packer, inside, random)
        if not pairs.possible:
            raise ValueError(
                f'task "{wanted.task}": next_sentence takes texts from another document, and the {name} split has one '
                "document only: give more documents, say where they end (documents: blank), or leave it out"
            )
        for document in range(len(texts.sources)):
            pairs.add(document)
        packer.finish()
    found = {"rows": packer.rows, "tokens": packer.tokens, "documents": len(texts.sources)}
    return {**found, "pairs": packer.pairs, "most_pairs": packer.most}


def encoded(
    tokenizer: Any, parts: Iterable[SplitPart], pieces: Callable[[str], list[str]], dtype: np.dtype
) -> Iterator[tuple[SplitPart, list[np.ndarray]]]:
    """Each part with the tokens of its pieces, each of which is encoded by itself."""
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    for batch in batches(parts):
        texts = [pieces(one.chunk.text) for one in batch]
        found = iter(tokenizer.encode_batch_fast([one for text in texts for one in text], add_special_tokens=False))
        for part, text in zip(batch, texts, strict=True):
            yield part, [np.array(next(found).ids, dtype) for _ in text]


def batches(parts: Iterable[SplitPart]) -> Iterator[list[SplitPart]]:
    """Some megabytes of parts at a time."""
    batch, size = list[SplitPart](), 0
    for part in parts:
        batch.append(part)
        size += len(part.chunk.text)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
