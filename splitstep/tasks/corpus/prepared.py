"""Prepared text in the cache: its subwords, and for each split full rows of tokens that are read from disk as needed.

The text is read three times, part by part: to count it, to learn subwords, to write rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...support.files import whole_folder
from ...support.words import counted
from .. import sampler
from ..cache import cache_root, digest, key, unwritable
from ..task import SPLITS
from ..tokenizer import TOKENIZER
from .documents import Part
from .held_out import Extent, extent, split, split_numbered
from .packing import Packer, row_type
from .pairs import PairPacker
from .sentences import SentenceFile, Sentences, encoded_sentences
from .subwords import Kind, continues, learn

FORMAT = 1  # to be raised if the same text gives other rows, so that no old cache is read
MANIFEST = "manifest.json"
BATCH = 1 << 22  # characters that are encoded at a time


class Wanted(NamedTuple):
    """What to prepare: the parts of a text, what tells it from other texts, and the form of its rows."""

    task: str
    parts: Callable[[], Iterator[Part]]
    source: dict[str, Any]
    subwords: Kind
    vocab_size: int
    length: int
    next_sentence: bool = False


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


def prepare(wanted: Wanted) -> Prepared:
    """The prepared text, from the cache if it is there and undamaged."""
    parameters = {"format": FORMAT, **wanted._asdict()}
    del parameters["parts"]
    if not wanted.next_sentence:  # the names of folders are older than this option
        del parameters["next_sentence"]
    folder = cache_root() / "text" / f"{wanted.task}-{key(parameters)}"
    found = load(folder)
    if found is None:
        make(folder, wanted)
        found = load(folder)
        assert found is not None, folder
    return found


def load(folder: Path) -> Prepared | None:
    """The prepared text in a folder, or None if a file is missing or does not match its hash."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if any(digest(folder / name) != wanted for name, wanted in manifest["files"].items()):
            return None
        dtype, length = row_type(manifest["vocab_size"]), manifest["length"]
        shapes = {name: (one["rows"], length) for name, one in manifest["splits"].items()}
        rows = {name: np.memmap(folder / f"{name}.rows", dtype, "r", shape=shape) for name, shape in shapes.items()}
        return Prepared(folder, dict(rows), manifest)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(folder: Path, wanted: Wanted) -> None:
    """Prepare everything into a folder that appears only once it is whole."""
    try:
        with whole_folder(folder) as part:
            counts = write(part, wanted)
            hashes = {path.name: digest(path) for path in sorted(part.iterdir())}
            form = {"source": wanted.source, "subwords": wanted.subwords, "vocab_size": wanted.vocab_size}
            form |= {"next_sentence": True} if wanted.next_sentence else {}
            manifest = {"format": FORMAT, **form, "length": wanted.length, **counts, "files": hashes}
            (part / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    except OSError as error:
        if not (folder / MANIFEST).is_file():  # else another process was faster, and its folder is the same
            raise unwritable(folder, error) from None


def write(folder: Path, wanted: Wanted) -> dict[str, Any]:
    """Write all files but the manifest, and return the counts."""
    whole = extent(wanted.parts())

    def parts() -> Iterator[tuple[str, Part]]:
        return split(wanted.parts(), whole)

    def training() -> Iterator[str]:
        return (part.text for name, part in parts() if name == "train")

    if not any(True for _ in training()):
        raise ValueError(
            f'task "{wanted.task}": the files hold {counted(whole.characters, "character")} of text; give more'
        )
    tokenizer = learn(wanted.subwords, wanted.vocab_size, training, whole.characters)
    tokenizer.save(str(folder / TOKENIZER), pretty=False)
    splits = (
        write_pairs(folder, wanted, tokenizer, whole)
        if wanted.next_sentence
        else write_rows(folder, wanted, tokenizer, parts())
    )
    for name, counts in splits.items():
        if not counts["rows"]:
            raise ValueError(
                f'task "{wanted.task}": the {name} split has {counted(counts["tokens"], "token")}, which do not fill a '
                f"row of {wanted.length}; give more text or a smaller length"
            )
    return {"documents": whole.documents, "characters": whole.characters, "splits": splits}


def write_rows(
    folder: Path, wanted: Wanted, tokenizer: Any, parts: Iterable[tuple[str, Part]]
) -> dict[str, dict[str, int]]:
    """Write the rows of all splits, and return how many there are."""
    dtype, documents = row_type(wanted.vocab_size), dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.rows").open("wb")) for name in SPLITS}
        packers = {name: Packer(file, wanted.length, dtype) for name, file in files.items()}
        for name, first, ids in encoded(tokenizer, parts, dtype):
            packers[name].add(ids, first)
            documents[name] += first
        for packer in packers.values():
            packer.finish()
    return {
        name: {"rows": packer.rows, "tokens": packer.tokens, "documents": documents[name]}
        for name, packer in packers.items()
    }


def write_pairs(folder: Path, wanted: Wanted, tokenizer: Any, whole: Extent) -> dict[str, dict[str, int]]:
    """Write the rows of all splits as pairs of texts: first the tokens, since any document may be the other one."""
    dtype = row_type(wanted.vocab_size)
    with ExitStack() as stack:
        opened = {name: stack.enter_context((folder / f"{name}.tokens").open("wb")) for name in SPLITS}
        files = {name: SentenceFile(file, dtype) for name, file in opened.items()}
        parts = batches(split_numbered(wanted.parts(), whole))
        for name, part, source, sentences in encoded_sentences(tokenizer, parts, dtype):
            files[name].add(part.first, source, sentences)
    inside = continues(tokenizer)
    counts = {name: pack_pairs(folder, wanted, name, file.read(), inside) for name, file in files.items()}
    for name in SPLITS:
        (folder / f"{name}.tokens").unlink()
    return counts


def pack_pairs(folder: Path, wanted: Wanted, name: str, texts: Sentences, inside: np.ndarray) -> dict[str, int]:
    """Write the rows of one split; `inside`: which subwords go on with a word."""
    with (folder / f"{name}.rows").open("wb") as file:
        packer = Packer(file, wanted.length, row_type(wanted.vocab_size))
        random = sampler.generator(0, 0, sampler.PAIRS, SPLITS.index(name))
        pairs = PairPacker(texts, packer, inside, random)
        if not pairs.possible:
            raise ValueError(
                f'task "{wanted.task}": next_sentence takes texts from another document, and the {name} split has one '
                "document only: give more documents, say where they end (documents: blank), or leave it out"
            )
        pairs.add_all()
        packer.finish()
    found = {"rows": packer.rows, "tokens": packer.tokens, "documents": len(texts.sources)}
    return {**found, "pairs": packer.pairs, "most_pairs": packer.most}


def encoded(
    tokenizer: Any, parts: Iterable[tuple[str, Part]], dtype: np.dtype
) -> Iterator[tuple[str, bool, np.ndarray]]:
    """The tokens of each part, with its split and whether it is a document's first."""
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    for batch in batches(parts):
        texts = [part.text for _, part in batch]
        for (name, part), found in zip(
            batch, tokenizer.encode_batch_fast(texts, add_special_tokens=False), strict=True
        ):
            yield name, part.first, np.array(found.ids, dtype)


T = TypeVar("T", tuple[str, Part], tuple[str, Part, int])


def batches(parts: Iterable[T]) -> Iterator[list[T]]:
    """Some megabytes of parts at a time."""
    batch, size = list[T](), 0
    for one in parts:
        batch.append(one)
        size += len(one[1].text)
        if size >= BATCH:
            yield batch
            batch, size = list[T](), 0
    if batch:
        yield batch
