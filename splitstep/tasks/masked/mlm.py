"""Masked language modelling on any text: fill in the tokens that are hidden."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from ...options import at_least
from ...text.documents import Boundary, find_files, library_hash, read_docstrings, read_parts
from ...text.files import find_own
from ...text.splits import SPLITS
from ...text.subwords import LEAST, MASK, SPECIAL, Kind, continues, read_kind
from ...text.tokenizers import TOKENIZER, same_vocabulary, save_tokenizer, saved_tokenizer
from ..batching import MASKS, Chosen, Epochs, generator
from ..cache import digest
from ..measures import MASKED_ACCURACY, Measure, score_tokens, token_figures
from ..task import IGNORED, Arrays, Batch, Data, DataNote, Task, task_row
from .packing import piece_numbers, read_pairs
from .prepared import Prepared, TextFactory, TextSpec, load, prepare

NAME = "mlm"
BLOCK = 64  # held-out rows whose masks are drawn together
PAIRS = ("token_type_ids", "next_sentence_positions", "next_sentence_targets")
Unit = Literal["tokens", "words"]
FIRST = len(SPECIAL)  # the first token that is not special
MASKED, RANDOM = 0.8, 0.1  # of the chosen tokens: become [MASK], become another token; the rest stays
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


class Masked(NamedTuple):
    """Rows with some tokens replaced [B, T], where those stood [B, M], ascending, and what they were [B, M]; a position
    whose label is `IGNORED` does not count."""

    tokens: np.ndarray
    positions: np.ndarray
    labels: np.ndarray


class Choice(NamedTuple):
    """How tokens are chosen: `masks` of each row, one by one or, if `continues` says which subwords go on with a word,
    by whole words; `vocab_size` for random ones."""

    masks: int
    vocab_size: int
    continues: np.ndarray | None = None


def mask(rows: np.ndarray, choice: Choice, random: np.random.Generator) -> Masked:
    """Rows [B, T] with tokens masked; special tokens never are."""
    rows = rows.astype(np.int64)
    keys = random.random(rows.shape, np.float32)
    if choice.continues is None:
        keys[rows < FIRST] = 2.0
        positions = np.sort(np.argpartition(keys, choice.masks - 1, axis=1)[:, : choice.masks], axis=1)
        chosen = np.take_along_axis(keys, positions, 1) < 1
    else:
        positions, chosen = whole_words(rows, choice.masks, choice.continues, keys)
    labels = np.take_along_axis(rows, positions, 1)
    lot, others = random.random(labels.shape), random.integers(FIRST, choice.vocab_size, labels.shape)
    new = np.where(lot < MASKED, MASK, np.where(lot < MASKED + RANDOM, others, labels))
    np.put_along_axis(rows, positions, np.where(chosen, new, labels), 1)
    return Masked(rows, positions, np.where(chosen, labels, IGNORED))


def whole_words(rows: np.ndarray, count: int, continues: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [B, count] of tokens of random words, ascending, and which of them count: the last word is left out
    if it does not fit."""
    words = np.cumsum(~continues[rows], axis=1)  # special tokens are words by themselves
    first = np.maximum.accumulate(np.where(~continues[rows], np.arange(rows.shape[1]), 0), axis=1)
    keys = np.where(rows < FIRST, 2.0, np.take_along_axis(keys, first, 1))
    order = np.argsort(keys, axis=1, kind="stable")
    found, after = order[:, :count], order[:, count : count + 1]
    cut = np.take_along_axis(words, found, 1) == np.take_along_axis(words, after, 1)
    chosen = ~cut & (np.take_along_axis(keys, found, 1) < 1)
    ascending = np.argsort(found, axis=1)
    return np.take_along_axis(found, ascending, 1), np.take_along_axis(chosen, ascending, 1)


def masked_figures(sums: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats per masked token, and the share that the likeliest token gets right; of pairs of texts, the loss and
    the share that is told apart."""
    if not (pairs := sums.get("next_tokens", 0.0)):
        return token_figures(sums)
    return token_figures(sums) | {
        "next_loss": sums["next_nll"] / pairs, "next_accuracy": sums["next_correct"] / pairs,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MlmOptions:
    """`train`: text files, folders of them, JSON lines, Parquet or folders of Hugging Face datasets, with a field
    "text"; by default the docstrings of the running Python. `valid`, `test`: the same for held-out text; without them
    it is held out of `train`. `documents`: where one ends in plain text: with the file, at blank lines or with the
    line. `prepared`: instead of these, a folder of text that was prepared before.

    `subwords`, `vocab_size`: what is learnt from the training text. `tokenizer`: instead, a run or a model's folder
    whose subwords read the text, to go on with its weights. `length`: tokens of a row. `masked`: the share of a row's
    tokens that is hidden, one by one or by whole words (`mask`). `next_sentence`: pieces are pairs of texts, of which
    the second follows the first or comes from another document, and the model learns to tell as well. `valid_limit`:
    the most validation tokens, for a quick look; the test split is always whole.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    documents: Boundary = "file"
    prepared: str | None = None
    subwords: Kind = "wordpiece"
    vocab_size: int = 8000
    tokenizer: str | None = None
    length: int = 128
    masked: float = 0.15
    mask: Unit = "tokens"
    next_sentence: bool = False
    valid_limit: int | None = None

    def __post_init__(self) -> None:
        at_least("vocab_size", self.vocab_size, LEAST)
        at_least("length", self.length, 8)
        at_least("valid_limit", self.valid_limit, self.length)
        if not 0 < self.masked <= 0.5:
            raise ValueError(f"option masked is {self.masked}, and needs a share above 0 and at most 0.5, e.g. 0.15")
        self._check_files()

    def _check_files(self) -> None:
        """Refuse files that cannot be used together."""
        given = [name for name in SPLITS if getattr(self, name)]
        if self.prepared is not None and given:
            are = f"{', '.join(given)} {'is' if len(given) == 1 else 'are'} given, too"
            raise ValueError(f"option prepared is {self.prepared}, and {are}: leave one or the other out")
        if given and not self.train:
            raise ValueError(f"option {given[0]} is given without train: add data.train=FILES")
        if self.prepared is not None and self.tokenizer is not None:
            raise ValueError("options prepared and tokenizer are both given: leave one of them out")

    @property
    def count(self) -> int:
        """The tokens of a row that are hidden."""
        return max(1, round(self.masked * self.length))


def prepare_text(options: MlmOptions, data: Path | None = None) -> Prepared:
    """The text of these options as rows of tokens, from the cache or made and stored there. Its `folder` is all that
    another machine needs to train on it: `data.prepared=FOLDER`."""
    if options.prepared is not None:
        return load_prepared(options, data)
    tokenizer, own = None, dict[str, TextFactory]()
    if options.tokenizer is not None:  # which has a kind and a number of subwords of its own
        tokenizer = saved_tokenizer(options.tokenizer).text
        kind, size = read_kind(tokenizer, options.tokenizer)
        options = replace(options, subwords=kind, vocab_size=size)
    if options.train:
        given = {split: names for split in SPLITS if (names := getattr(options, split))}
        files = {split: find_files(names, NAME, data) for split, names in given.items()}
        named = {split: [[file.name, digest(file)] for file in found] for split, found in files.items()}
        source: dict[str, Any] = {"files": named.pop("train"), "documents": options.documents, **named}
        own |= {split: partial(read_parts, found, options.documents) for split, found in files.items()}
        parts = own.pop("train")
    else:
        source = {"docstrings": library_hash()}
        once = cache(lambda: list(read_docstrings()))  # parsing takes seconds, and the text is small
        parts = lambda: iter(once())  # noqa: E731
    form = options.subwords, options.vocab_size, options.length, options.next_sentence
    return prepare(TextSpec(NAME, parts, source, *form, own, tokenizer))


def load_prepared(options: MlmOptions, data: Path | None) -> Prepared:
    """Text that was prepared before, which must have the form that the options say."""
    assert options.prepared is not None
    folder = find_own(options.prepared, NAME, data, "folder")
    found = load(folder)
    if found is None:
        raise ValueError(
            f'task "{NAME}": {folder} is not a folder of prepared text, or it is damaged; use train instead'
        )
    made = {"next_sentence": False, **found.manifest}
    for name in ("subwords", "vocab_size", "length", "next_sentence"):
        if made[name] != getattr(options, name):
            given, has = (str(x).lower() if isinstance(x, bool) else x for x in (getattr(options, name), made[name]))
            raise ValueError(
                f"option {name} is {given}, and the text in {folder} was prepared with {has}: add data.{name}={has}"
            )
    return found


@final
class Mlm(Task):
    """Masked language modelling on your own text.

    Rows are full: pieces of documents, each [CLS] tokens [SEP], which do not see each other. A batch has `input_ids`
    and `seq_idx`, the number of each token's piece, [B, T], and `masked_positions` and `labels` [B, M]. With the option
    `next_sentence` pieces are pairs of texts, and a batch also has `token_type_ids` [B, T], `next_sentence_positions`
    and `next_sentence_targets` [B, K], and in training weights that make the loss a mean over all pairs of the batch.
    """

    name: str = NAME
    model: ClassVar[str] = "masked"
    measure = Measure(MASKED_ACCURACY, score_tokens, masked_figures, "tokens")

    def __init__(self, name: str, options: MlmOptions, data: Data) -> None:
        self.prepared: Prepared = data.reader
        options = replace(options, vocab_size=self.prepared.manifest["vocab_size"])  # a given tokenizer has its own
        self.options, self.tokenizer = options, self.prepared.tokenizer
        words = continues(self.tokenizer) if options.mask == "words" else None
        self._choice = Choice(options.count, options.vocab_size, words)
        limit = None if options.valid_limit is None else options.valid_limit // options.length
        self.rows = {**self.prepared.rows, "valid": self.prepared.rows["valid"][:limit]}
        self.batching = Epochs({split: len(rows) for split, rows in self.rows.items()}, options.length)

    @property
    def shape(self) -> dict[str, int]:
        second = {"next_sentence_labels": 2} if self.options.next_sentence else {}
        return {"vocab_size": self.options.vocab_size, "max_length": self.length, "pad_token_id": 0, **second}

    def collate(self, chosen: Chosen) -> Arrays:
        """Rows with masks: in training those of the step, of held-out rows always the same."""
        tokens, pairs = self._read(self.rows[chosen.split][chosen.rows])
        if chosen.seed is None:
            first, last = int(chosen.rows[0]), int(chosen.rows[-1]) + 1
            return {**as_arrays(tokens, self._held_out(chosen.split, first, last)), **pairs}
        random = generator(chosen.seed, chosen.step, MASKS)
        return {**as_arrays(tokens, mask(tokens, self._choice, random)), **pairs, **weights(pairs)}

    def _read(self, rows: np.ndarray) -> tuple[np.ndarray, Arrays]:
        """Prepared rows as tokens, and what a batch says about pairs of texts, if rows have them."""
        if not self.options.next_sentence:
            return rows, {}
        tokens, *found = read_pairs(rows, self.prepared.most_pairs)
        return tokens, dict(zip(PAIRS, found, strict=True))

    def _held_out(self, split: str, first: int, last: int) -> Masked:
        """Rows [first, last) of a split. Masks are drawn for whole blocks of rows, so that they depend neither on the
        size of a batch nor on a limit."""
        stream, start = 1 + SPLITS.index(split), first // BLOCK
        every = [
            mask(
                self._read(self.prepared.rows[split][number * BLOCK : (number + 1) * BLOCK])[0],
                self._choice,
                generator(0, number, MASKS, stream),
            )
            for number in range(start, (last - 1) // BLOCK + 1)
        ]
        shift = start * BLOCK
        return Masked(*(np.concatenate(one)[first - shift : last - shift] for one in zip(*every, strict=True)))

    def score_output(self, output: Any, batch: Batch) -> dict[str, float]:
        """The sums over masked positions, and those over pairs of texts if there are any."""
        found = self.score(output.logits, batch)
        if not self.options.next_sentence:
            return found
        pairs = score_tokens(output.next_sentence_logits.float(), batch["next_sentence_targets"])
        return found | {f"next_{name}": value for name, value in pairs.items()}

    def save_with(self, folder: Path) -> None:
        names = dict(zip(NAMES, SPECIAL, strict=True))
        save_tokenizer(folder, self.tokenizer, {**names, "model_max_length": self.length})

    def same_tokens(self, folder: Path) -> bool:
        return same_vocabulary((folder / TOKENIZER).read_text(encoding="utf-8"), self.tokenizer)

    def oddities(self) -> dict[str, dict[str, int]]:
        splits = self.prepared.manifest["splits"]
        return {"also in train": {split: one.get("also_in_train", 0) for split, one in splits.items()}}

    def describe(self) -> dict[str, Any]:
        manifest = self.prepared.manifest
        kept = ("source", "subwords", "vocab_size", "length", "documents", "characters", "splits")
        return {
            "task": self.name,
            **{name: manifest[name] for name in kept},
            **({"next_sentence": True} if self.options.next_sentence else {}),
            "masked": {"count": self.options.count, "by": self.options.mask},
            "valid_rows": len(self.rows["valid"]),
            "sha256": manifest["files"],
        }


def as_arrays(rows: np.ndarray, masked: Masked) -> Arrays:
    """Rows and their masks as a model takes them."""
    return {
        "input_ids": masked.tokens,
        "seq_idx": piece_numbers(rows),
        "masked_positions": masked.positions,
        "labels": masked.labels,
    }


def weights(pairs: Arrays) -> Arrays:
    """The share of each label in a mean over the labels that count, whichever part of the batch they end up in."""
    if not pairs:
        return {}
    counts = (pairs["next_sentence_targets"] != IGNORED).astype(np.float32)
    return {"next_sentence_weights": counts / np.maximum(counts.sum(), np.float32(1))}


MLM = task_row(
    NAME, "Masked language modelling on your own text.", Mlm, MlmOptions,
    DataNote("any text of yours, or Python's docstrings", "built in", origin="Python"),
    lambda options, data: Data({}, {}, prepare_text(options, data)),
)  # fmt: skip
