"""Texts to run a language model on: read from anywhere or the package's own, and as padded batches of tokens."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..kernels.loss import IGNORED
from ..support.documents import decode, json_lines, read_lines, split_lines
from ..support.words import first_line
from .held_out import HELD_OUT, HeldOut

STANDARD_INPUT = "-"
HEAD = 4096  # bytes in which a file that is not text shows it

TEXTS = (
    "The bridge over the river was closed for repairs in the spring, so everyone in the village took the ferry. It "
    "left every half hour from a small wooden pier, and the ferryman knew most of his passengers by name. When the "
    "bridge was opened again in October, the council asked people whether the ferry should stay. Nearly all of them "
    "voted to keep it.",
    "Water boils at a lower temperature on a mountain than at the coast, because the pressure of the air falls with "
    "height. At three thousand metres it boils at about ninety degrees, and potatoes take much longer to cook. A "
    "pressure cooker solves the problem: the steam cannot escape, so the pressure inside rises, and with it the "
    "temperature of the water.",
    "To sort a list of numbers, choose one of them and call it the pivot. Put all smaller numbers on its left and all "
    "larger ones on its right, then sort both sides in the same way. If the pivot is near the middle each time, the "
    "work grows only a little faster than the length of the list. If it is always the smallest number, the method is "
    "slow.",
    "My grandmother kept her recipes in a tin box under the stairs. Most of them were written on the backs of old "
    "envelopes, without quantities, because she measured everything by eye. After she died we tried to bake her apple "
    "cake from one of these notes. It took us eleven attempts, and even then my uncle said that there was something "
    "missing.",
    "The company said on Tuesday that its sales had risen by four per cent in the third quarter, less than most "
    "analysts had expected. It blamed higher prices for energy and a shortage of parts. The shares fell in early "
    "trading but recovered in the afternoon, after the chief executive told reporters that orders for the coming year "
    "were already strong.",
    "Bees tell each other where to find food by dancing. A bee that returns to the hive runs in a straight line while "
    "it shakes its body, then turns back and does so again. The angle of the line shows the direction of the flowers, "
    "measured from the sun, and the length of the run shows how far away they are. The others follow closely and then "
    "fly out.",
    "\"You cannot park here,\" said the man in the yellow coat. I told him that I would only be a minute, that I had "
    "to bring my sister her keys. He looked at his watch, then at the empty street, and sighed. \"One minute,\" he "
    "said. When I came back he was still standing beside the car, holding the ticket that he had decided not to write.",
    "In the first half of the nineteenth century most letters were paid for by the person who received them, and the "
    "price depended on the distance. Many people refused to pay. A reformer then proposed that the sender should pay "
    "one low price for the whole country and stick a small stamp on the letter. Within ten years the number of "
    "letters had grown fourfold.",
)  # fmt: skip
"""Eight short texts of several kinds, written for this package, so no model has learnt them by heart."""


def default_texts() -> list[str]:
    """The texts that come with the package: eight of at least 64 tokens each."""
    return list(TEXTS)


def held_out_texts() -> list[HeldOut]:
    """Others that come with the package, each with its kind: to judge on them what was chosen on the eight."""
    return list(HELD_OUT)


def read_texts(path: str | Path) -> list[str]:
    """The texts in a file: one a line, or, if its name ends in .jsonl, one JSON object with "text" a line; those of a
    folder: each text file in it; or the lines of standard input, which is read only once: "-"."""
    file = Path(path).expanduser()
    if str(path) == STANDARD_INPUT:
        found, needed = stripped(standard_input()), "write one text a line"
    elif file.is_dir():
        found, needed = texts_in(file), "put a text file in it for each text"
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
    return split_lines(decode(sys.stdin.buffer.read(), "standard input"))


def stripped(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines]


def texts_of(file: Path, name: str) -> list[str]:
    """The texts in a file, called by a name."""
    lines, wanted = read_lines(file), 'write {"text": "..."}'
    if file.suffix != ".jsonl":
        return stripped(lines)
    return [text_of(row, f"{name}, line {number}", wanted) for number, row in json_lines(lines, name, wanted)]


def texts_in(folder: Path) -> list[str]:
    """The text files of a folder, by name; hidden ones and other files are left out."""
    files = sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))
    return [one.read_text(encoding="utf-8-sig") for one in files if is_text(one)]


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


def text_of(row: Mapping[str, Any], where: str, wanted: str) -> str:
    """The text in a line of a .jsonl file."""
    if not isinstance(text := row.get("text"), str):
        raise ValueError(f"{where} has no text: {wanted}")
    return text


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
