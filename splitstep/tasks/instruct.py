"""Answers to instructions: a language model of any tokenizer learns to answer, or to continue plain text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from ..options import at_least
from ..support.words import counted
from ..text.documents import ROWS, TEXTS, own_files
from ..text.instructions import Row, read_rows
from ..text.splits import SPLITS
from ..text.tokenizers import named_ends, open_tokenizer
from .batching import Chosen, TokenRows, fitting_buckets
from .measures import WORDS
from .task import IGNORED, Arrays, Batch, Data, DataNote, Task, hashes, task_row, tensors

TEMPLATE = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{prompt}\n\n### Response:\n"
)
WIDTHS = 8
ENDLESS = 2**31 - 1  # tokens
AT_ONCE = 256  # rows that are tokenised at once, on all cores
HELD = 20  # of so many rows, one is held out for valid, and one for test


class Tokens(NamedTuple):
    """The tokens of a row, whether each belongs to the answer, and whether the row has more that are cut off."""

    ids: np.ndarray
    answers: np.ndarray
    cut: bool


@dataclass(frozen=True, kw_only=True)
class InstructOptions:
    """`train`: JSON lines with `instruction` (or `prompt`) and `response`, or plain text; packed or not. `tokenizer`:
    the model whose tokenizer reads them. `length`: the most tokens of a row; the rest is cut off. `template`: what a
    prompt stands in. `valid`, `test`: how many rows are held out for each, by default 5 %; they are the last ones of
    each file, in proportion."""

    train: tuple[str, ...] = ()
    tokenizer: str = ""
    length: int = 512
    template: str = TEMPLATE
    valid: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("option train is missing; name the files or folders to read, e.g. train: rows.jsonl")
        if "{prompt}" not in self.template:
            raise ValueError(f"option template is {self.template!r}, and needs {{prompt}} where the prompt stands")
        at_least("length", self.length, 4)
        at_least("valid", self.valid, 1)
        at_least("test", self.test, 1)


@final
class Instruct(Task):
    """Prompts and answers, padded on the right to a few lengths. Only the answer's tokens, and the end, have labels.

    Of the data, splits are rows, and the reader is the model's tokenizer.
    """

    name: str = "instruct"
    model: ClassVar[str] = "causal"
    own_tokens: ClassVar[bool] = False
    measure = WORDS

    def __init__(self, name: str, options: InstructOptions, data: Data) -> None:
        self.options, self.data, self.tokenizer = options, data, data.reader
        ends = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        self.padding = next((one for one in ends if one is not None), 0)
        fitting = dict[str, list[tuple[Row, Tokens]]]()
        for split, rows in data.splits.items():  # those without a token of the answer within the length are left out
            tokens = encode_rows(self.tokenizer, rows, options.length)
            fitting[split] = [(row, one) for row, one in zip(rows, tokens, strict=True) if one.answers[1:].any()]
        self.rows = {split: [row for row, _ in found] for split, found in fitting.items()}
        self._dropped = {split: len(data.splits[split]) - len(found) for split, found in fitting.items()}
        for split, found in fitting.items():
            if not found:
                raise ValueError(self._too_long(data.splits[split], split))
        self._cut = {split: sum(tokens.cut for _, tokens in found) for split, found in fitting.items()}
        self.encoded = {split: joined([tokens for _, tokens in found]) for split, found in fitting.items()}
        lengths = {split: one.lengths for split, one in self.encoded.items()}
        self.batching = self.buckets = fitting_buckets(lengths, WIDTHS)

    def _too_long(self, rows: Sequence[Row], split: str) -> str:
        whole = (tokens.answers for tokens in encode_rows(self.tokenizer, rows, ENDLESS))
        least = min((int(answers[1:].argmax()) + 2 for answers in whole if answers[1:].any()), default=None)
        if least is None:
            return f'task "instruct": {self.options.tokenizer} makes no tokens of text ({split}): name another model'
        return (
            f'task "instruct": no row of {split} has an answer within {self.options.length} tokens: set data.length to '
            f"{least} or more, or give a shorter data.template"
        )

    @property
    def shape(self) -> dict[str, int]:
        return {"vocab_size": len(self.tokenizer), "max_length": max(self.buckets.widths)}

    def drawn(self, seed: int, step: int, size: int) -> tuple[np.ndarray, int]:
        """The training rows of a step, and the width to which they are padded."""
        chosen = self.batching.draw(seed, step, size)
        return chosen.rows, chosen.width

    def training_rows(self, rows: np.ndarray, width: int) -> Batch:
        """These training rows, padded to a width."""
        return tensors(self.collate(Chosen("train", rows, width)))

    def collate(self, chosen: Chosen) -> Arrays:
        known, rows, width = self.encoded[chosen.split], chosen.rows, chosen.width
        ids, mask = known.padded(rows, width, self.padding)
        labels = np.where(known.padded_marks(rows, width) > 0, ids, IGNORED)
        labels[:, 0] = IGNORED  # nothing predicts the first token
        return {"input_ids": ids, "attention_mask": mask.astype(np.int64), "labels": labels}

    def save_with(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        stop_at(self.tokenizer.eos_token_id, folder)

    def oddities(self) -> dict[str, dict[str, int]]:
        length, number = self.options.length, self.tokenizer.unk_token_id
        known = number is None or number == self.tokenizer.eos_token_id
        unknown = {} if known else {split: int((one.tokens == number).sum()) for split, one in self.encoded.items()}
        return {
            f"left out, for the answer begins after {length} tokens": self._dropped,
            f"cut off after {length} tokens": self._cut,
            "tokens unknown to the tokenizer": unknown,
            "read as plain text": {split: sum(not row.prompt for row in found) for split, found in self.rows.items()},
        }

    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self.data.source,
            "rows": {split: len(found) for split, found in self.rows.items()},
            "tokens": {split: len(found.tokens) for split, found in self.encoded.items()},
            "sha256": hashes({split: found.tokens for split, found in self.encoded.items()}),
            "buckets": self.buckets.describe(),
        }


def read_instructions(options: InstructOptions, data: Path | None = None) -> Data:
    if not options.tokenizer:
        raise ValueError('task "instruct" needs a tokenizer: add data.tokenizer=MODEL, or start=MODEL')
    tokenizer = open_tokenizer(options.tokenizer)
    paths = own_files(options.train, Instruct.name, data, (*TEXTS, *ROWS[:2]))
    rows = divided([read_rows(path, options.template) for path in paths], options)
    return Data(rows, {"files": [path.name for path in paths]}, tokenizer)


def divided(files: Sequence[Sequence[Row]], options: InstructOptions) -> dict[str, list[Row]]:
    """The three splits: the last rows of each file are held out, in proportion to its rows."""
    sizes = [len(rows) for rows in files]
    share = max(1, sum(sizes) // HELD)
    valid, test = (share if given is None else given for given in (options.valid, options.test))
    if sum(sizes) <= valid + test:
        raise ValueError(
            f'task "instruct": {counted(sum(sizes), "row")}, of which {valid} + {test} are held out: give more rows, '
            "or lower data.valid and data.test"
        )
    held = quotas(valid + test, sizes)
    found: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for rows, both, last in zip(files, held, quotas(test, held), strict=True):
        cuts = (0, len(rows) - both, len(rows) - last, len(rows))
        for i, split in enumerate(SPLITS):
            found[split] += rows[cuts[i] : cuts[i + 1]]
    return found


def quotas(count: int, sizes: Sequence[int]) -> list[int]:
    """`count`, less than the sum of the sizes or equal to it, in parts in proportion to them: none is larger than its
    size, and they differ from the proportion by less than 1."""
    total = sum(sizes)
    found = [count * size // total for size in sizes]
    largest_rests = sorted(range(len(sizes)), key=lambda k: -(count * sizes[k] % total))
    for k in largest_rests[: count - sum(found)]:
        found[k] += 1
    return found


def encode_rows(tokenizer: Any, rows: Sequence[Row], length: int) -> Iterator[Tokens]:
    """Each row's tokens, at most `length`, and which belong to the answer: those that end after the prompt does, and
    the end of the text, if the tokenizer has one."""
    if not tokenizer.is_fast:
        raise ValueError(
            f"{tokenizer.name_or_path} has a slow tokenizer, which does not say where its tokens are: use a fast one"
        )
    for begin in range(0, len(rows), AT_ONCE):
        some = rows[begin : begin + AT_ONCE]
        texts = [row.prompt + row.answer for row in some]
        found = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        for number, row in enumerate(some):
            ids, places = found["input_ids"][number], found["offset_mapping"][number]
            special = np.array(found["special_tokens_mask"][number], bool)
            ends = np.array([end for _, end in places], np.int64)
            yield with_end(tokenizer, ids, (ends > len(row.prompt)) & ~special, length)


def with_end(tokenizer: Any, ids: list[int], answers: np.ndarray, length: int) -> Tokens:
    """The tokens with the end of the text, which belongs to the answer; cut off after `length`."""
    end = tokenizer.eos_token_id
    if end is not None and ids[-1:] != [end]:
        ids, answers = [*ids, end], np.append(answers, True)
    elif end is not None:
        answers[-1] = True
    return Tokens(np.array(ids[:length], np.int32), answers[:length], len(ids) > length)


def stop_at(end: int | None, folder: Path) -> None:
    """Let the model in a folder stop at the end that it was trained with, too; its settings may name another only."""
    from transformers import GenerationConfig

    if end is None or not (folder / "generation_config.json").is_file():
        return
    settings = GenerationConfig.from_pretrained(folder)
    if end not in (ends := named_ends(settings)):
        settings.eos_token_id = [*ends, end]
        settings.save_pretrained(folder)


def joined(rows: Sequence[Tokens]) -> TokenRows:
    """The rows one after another; the marks of their tokens are 1 in answers."""
    offsets = np.cumsum([0, *(len(row.ids) for row in rows)])
    answers = np.concatenate([row.answers for row in rows]).astype(np.int64)
    return TokenRows(np.concatenate([row.ids for row in rows]), offsets, marks=answers)


INSTRUCT = task_row(
    Instruct.name,
    "Prompts and answers, padded on the right to a few lengths. Only the answer's tokens, and the end, have labels.",
    Instruct, InstructOptions, DataNote("JSON lines with instruction and response, or plain text", "your own"),
    read_instructions,
)  # fmt: skip
