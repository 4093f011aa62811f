"""Texts to run a language model on: read from anywhere or the package's own, and as padded batches of tokens."""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..kernels.loss import IGNORED
from ..support.documents import decode, json_lines, read_lines, split_lines
from ..support.words import first_line

STANDARD_INPUT = "-"
HEAD = 4096  # bytes in which a file that is not text shows it

FILE = Path(__file__).with_name("texts.jsonl")  # written for this package, so no model has learnt them by heart


class OwnText(NamedTuple):
    """A text that comes with the package: prose, code or dialogue, or one of the eight of several kinds."""

    kind: Literal["default", "prose", "code", "dialogue"]
    text: str


@cache
def own_texts() -> tuple[OwnText, ...]:
    """All texts that come with the package."""
    return tuple(OwnText(**row) for _, row in json_lines(read_lines(FILE), str(FILE)))


def default_texts() -> list[str]:
    """The eight texts that everything is measured on, of at least 64 tokens each."""
    return [one.text for one in own_texts() if one.kind == "default"]


def held_out_texts() -> list[OwnText]:
    """Eight others of each kind: to judge on them what was chosen on the eight."""
    return [one for one in own_texts() if one.kind != "default"]


def read_texts(path: str | Path) -> list[str]:
    """The texts in a file: one a line, or, if its name ends in .jsonl, one JSON object with "text" a line; those of a
    folder: each text file in it that is not hidden; or the lines of standard input, which is read only once: "-"."""
    file = Path(path).expanduser()
    if str(path) == STANDARD_INPUT:
        found, needed = standard_input(), "write one text a line"
    elif file.is_dir():
        inside = sorted(one for one in file.iterdir() if one.is_file() and not one.name.startswith("."))
        found = [one.read_text(encoding="utf-8-sig") for one in inside if is_text(one)]
        needed = "put a text file in it for each text"
    elif file.is_file():
        found, needed = texts_of(file, str(path)), "write one text a line"
    else:
        raise ValueError(f"there is no file of texts {path}: name a file with one text a line, a folder, or -")
    if not (found := [text for text in found if text.strip()]):
        raise ValueError(f"{path} has no texts: {needed}")
    return found


def standard_input() -> list[str]:
    """The lines of standard input; a terminal is refused."""
    if sys.stdin.isatty():
        raise ValueError("texts are to come from standard input (-), and that is a terminal: pipe a file into it")
    return [line.strip() for line in split_lines(decode(sys.stdin.buffer.read(), "standard input"))]


def texts_of(file: Path, name: str) -> list[str]:
    """The texts in a file, called by a name."""
    lines, wanted, found = read_lines(file), 'write {"text": "..."}', list[str]()
    if file.suffix != ".jsonl":
        return [line.strip() for line in lines]
    for number, row in json_lines(lines, name, wanted):
        if not isinstance(text := row.get("text"), str):
            raise ValueError(f"{name}, line {number} has no text: {wanted}")
        found.append(text)
    return found


def is_text(file: Path) -> bool:
    """Whether all of a file is UTF-8 text."""
    with file.open("rb") as stream:
        if b"\0" in stream.read(HEAD):  # weights, for example
            return False
        stream.seek(0)
        try:
            decode(stream.read(), file.name)
        except ValueError:
            return False
    return True


def batches_of(texts: Sequence[str], tokenizer: Any, tokens: int, size: int) -> Iterator[dict[str, Tensor]]:
    """Batches of at most `size` texts, each cut after `tokens` tokens: input_ids, attention_mask and labels [B, T].

    Shorter texts are padded on the right; there attention_mask is 0 and the labels are ignored ones.
    """
    if tokens < 1 or size < 1:
        raise ValueError(f"texts of {tokens} tokens in batches of {size}: both must be at least 1")
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    padding = next((one for one in ends if one is not None), 0)  # as it is masked, any will do
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        yield padded([tokens_of(text, tokenizer, tokens) for text in some], padding)


@final
class ChatTokenizer:
    """A tokenizer that reads each text as one turn of a user, in its chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str, truncation: bool, max_length: int) -> dict[str, list[int]]:
        turns = [{"role": "user", "content": text}]
        try:
            ids = self.tokenizer.apply_chat_template(
                turns, return_dict=False, truncation=truncation, max_length=max_length
            )
        except Exception as error:  # templates are programs
            raise ValueError(
                f"the chat template fails on {text[:40]!r} ({first_line(error)}): leave out --chat"
            ) from None
        return {"input_ids": ids}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol such as copying
            raise AttributeError(name)
        return getattr(self.tokenizer, name)


def with_chat(tokenizer: Any, name: str) -> ChatTokenizer:
    """The tokenizer of the model of this name, for `--chat`."""
    if not tokenizer.chat_template:
        raise ValueError(f"the tokenizer of {name} has no chat template: leave out --chat")
    return ChatTokenizer(tokenizer)


def tokens_of(text: str, tokenizer: Any, tokens: int) -> list[int]:
    found = list[int](tokenizer(text, truncation=True, max_length=tokens)["input_ids"])
    if not found:
        whose = tokenizer.name_or_path or "a model"
        raise ValueError(f"the tokenizer of {whose} makes no tokens of the text {text[:40]!r}: leave it out")
    return found


def padded(rows: Sequence[Sequence[int]], padding: int) -> dict[str, Tensor]:
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding)
    real = pad_sequence([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True)
    return {"input_ids": ids, "attention_mask": real, "labels": ids.masked_fill(real == 0, IGNORED)}
