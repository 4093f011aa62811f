"""A user's own text, byte by byte or by subwords that are learnt from it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..options import at_least
from ..text.documents import own_files
from ..text.files import read, read_text
from ..text.splits import SPLITS, split_at
from ..text.subwords import LEAST, check_size, learn_bpe
from ..text.tokenizers import END, subwords
from .cache import derived
from .corpora import Language, WindowOptions
from .task import Data, DataNote, hashes, task_row

NAME = "text"
HELD = 20  # of so many bytes, one is held out for validation and one for test
FORMAT = 2  # to be raised when the same texts give other tokens, so no old cache is read
BLOCK = 1 << 16  # characters that are encoded at a time
BORDER = re.compile(r"(?<=\S)\n(?=\S)")  # the end of a line that no subword crosses: several blanks may be one
TOKENIZER = "tokenizer"  # its JSON text, beside the tokens in the cache


@dataclass(frozen=True, kw_only=True)
class TextOptions(WindowOptions):
    """`train`: files, plain, .gz or .xz, or folders of them, joined in this order; the last 5 % + 5 % are held out.
    `tokens`: bytes, or the subwords of a byte-level BPE with `vocab_size` of them, learnt from the training text."""

    train: tuple[str, ...] = ()
    tokens: Literal["bytes", "bpe"] = "bytes"
    vocab_size: int = 8000

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("option train is missing; name the files or folders to read, e.g. train: notes.txt")
        at_least("vocab_size", self.vocab_size, LEAST)
        super().__post_init__()


def read_own_text(options: TextOptions, data: Path | None = None) -> Data:
    """Between files, subwords have a token that ends a text."""
    from tokenizers import Tokenizer

    paths = own_files(options.train, NAME, data)
    source: dict[str, Any] = {"files": [path.name for path in paths]}
    if options.tokens == "bytes":
        joined = np.frombuffer(b"".join(map(read, paths)), dtype=np.uint8)
        held = len(joined) // HELD
        return Data(split_at(joined, [len(joined) - 2 * held, len(joined) - held]), source)
    texts, size = [decoded(path) for path in paths], options.vocab_size
    whole = {str(number): np.frombuffer(text.encode(), np.uint8) for number, text in enumerate(texts)}
    parameters = {"texts": hashes(whole), "vocab_size": size, "held": HELD, "format": FORMAT}
    found = derived(NAME, parameters, (*SPLITS, TOKENIZER), lambda: make_subwords(texts, size))
    tokenizer = Tokenizer.from_str(found.pop(TOKENIZER).tobytes().decode())
    return Data(found, {**source, "tokens": "bpe"}, subwords(tokenizer))


def decoded(path: Path) -> str:
    try:
        return read_text(path)
    except ValueError as error:
        raise ValueError(f"{error}, or use data.tokens=bytes, which takes any file") from None


def make_subwords(texts: Sequence[str], size: int) -> dict[str, np.ndarray]:
    """The tokens of each split, and the tokenizer's text as bytes."""
    parts = held_out(texts)
    tokenizer = learn_bpe((block for text in parts["train"] for block in blocks(text)), size, [END], prefix=False)
    check_size(tokenizer, size)
    arrays = {split: encoded(own, tokenizer) for split, own in parts.items()}
    return {**arrays, TOKENIZER: np.frombuffer(tokenizer.to_str().encode(), np.uint8)}


def held_out(texts: Sequence[str]) -> dict[str, list[str]]:
    """The texts of each split: of all characters, the last twentieths, from the beginning of a line if there is one."""
    total = sum(map(len, texts))
    held = total // HELD
    bounds = {"train": (0, total - 2 * held), "valid": (total - 2 * held, total - held), "test": (total - held, total)}
    found, begin = {split: list[str]() for split in SPLITS}, 0
    for text in texts:
        cuts = {split: [line_after(text, edge - begin) for edge in edges] for split, edges in bounds.items()}
        for split, (first, last) in cuts.items():
            if first < last:
                found[split].append(text[first:last])
        begin += len(text)
    return found


def line_after(text: str, place: int) -> int:
    """Where the first line begins that does not begin before a place; the place itself if no other line begins."""
    if not 0 < place < len(text):
        return min(max(place, 0), len(text))
    end = text.find("\n", place - 1)
    return place if end < 0 or end + 1 >= len(text) else end + 1


def blocks(text: str) -> Iterator[str]:
    """The text in parts, whose tokens are those of the whole text."""
    begin = 0
    while begin < len(text):
        border = BORDER.search(text, begin + BLOCK)
        end = border.end() if border else len(text)
        yield text[begin:end]
        begin = end


def encoded(texts: Sequence[str], tokenizer: Any) -> np.ndarray:
    """The tokens of texts, END after each."""
    end, dtype = tokenizer.token_to_id(END), np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.uint32
    tokenizer.encode_special_tokens = True  # END that is written in a text is text
    parts = list[np.ndarray]()
    for text in texts:
        for found in tokenizer.encode_batch(list(blocks(text))):
            parts.append(np.array(found.ids, dtype))
        parts.append(np.array([end], dtype))
    return np.concatenate(parts) if parts else np.empty(0, dtype)


TEXT = task_row(
    NAME, "Language modelling on given files.", Language, TextOptions, DataNote("any text", "your own"), read_own_text
)
