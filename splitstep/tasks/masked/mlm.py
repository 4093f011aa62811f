"""Masked language modelling on any text: fill in the tokens that are hidden."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from ...options import at_least
from ...text.documents import Boundary, find_files, read_parts
from ...text.files import find_own
from ...text.library import library_hash, read_docstrings
from ...text.splits import SPLITS
from ...text.subwords import LEAST, SPECIAL, Kind, continues, read_kind
from ...text.tokenizers import TOKENIZER, save_tokenizer, saved_tokenizer
from .. import sampler
from ..cache import digest
from ..task import IGNORED, Batch, DataNote, Metric, Task, check_split, check_totals, score_tokens
from .masking import Choice, Masked, Unit, mask
from .packing import piece_numbers
from .pairs import read_pairs
from .prepared import Prepared, Read, Wanted, load, prepare

MASKED_ACCURACY = Metric("accuracy", True, "{:.2%}", "masked accuracy", 0.0, 1.0)
BLOCK = 64  # held-out rows whose masks are drawn together
PAIRS = ("token_type_ids", "next_sentence_positions", "next_sentence_targets")
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")


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
    options = with_own_size(options)
    if not options.train:
        source: dict[str, Any] = {"docstrings": library_hash()}
        once = cache(lambda: list(read_docstrings()))  # parsing takes seconds, and the text is small
        parts = lambda: iter(once())  # noqa: E731
        return prepare(wanted(options, parts, source))
    given = {split: names for split in SPLITS if (names := getattr(options, split))}
    files = {split: find_files(names, Mlm.name, data) for split, names in given.items()}
    named = {split: [[file.name, digest(file)] for file in found] for split, found in files.items()}
    source = {"files": named.pop("train"), "documents": options.documents, **named}
    read = {split: partial(read_parts, found, options.documents) for split, found in files.items()}
    return prepare(wanted(options, read.pop("train"), source)._replace(own=read))


def wanted(options: MlmOptions, parts: Read, source: dict[str, Any]) -> Wanted:
    form = options.subwords, options.vocab_size, options.length, options.next_sentence
    tokenizer = None if options.tokenizer is None else saved_tokenizer(options.tokenizer).text
    return Wanted(Mlm.name, parts, source, *form, tokenizer=tokenizer)


def with_own_size(options: MlmOptions) -> MlmOptions:
    """The options with the kind and the number of subwords that a given tokenizer has."""
    if options.tokenizer is None:
        return options
    kind, size = read_kind(saved_tokenizer(options.tokenizer).text, options.tokenizer)
    return replace(options, subwords=kind, vocab_size=size)


def load_prepared(options: MlmOptions, data: Path | None) -> Prepared:
    """Text that was prepared before, which must have the form that the options say."""
    assert options.prepared is not None
    folder = find_own(options.prepared, Mlm.name, data, "folder")
    found = load(folder)
    if found is None:
        raise ValueError(
            f'task "{Mlm.name}": {folder} is not a folder of prepared text, or it is damaged; use train instead'
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

    name: ClassVar[str] = "mlm"
    model: ClassVar[str] = "masked"
    metric = MASKED_ACCURACY
    Options: ClassVar[type] = MlmOptions
    note = DataNote("any text of yours, or Python's docstrings", "built in", origin="Python")

    def __init__(self, options: MlmOptions, data: Path | None = None) -> None:
        self._prepared = prepared = prepare_text(options, data)
        options = replace(options, vocab_size=prepared.manifest["vocab_size"])  # a given tokenizer has its own
        self._options, self._tokenizer = options, prepared.tokenizer
        words = continues(self._tokenizer) if options.mask == "words" else None
        self._choice = Choice(options.count, options.vocab_size, words)
        limit = None if options.valid_limit is None else options.valid_limit // options.length
        self._rows = {**prepared.rows, "valid": prepared.rows["valid"][:limit]}

    @property
    def shape(self) -> dict[str, int]:
        second = {"next_sentence_labels": 2} if self._options.next_sentence else {}
        return {"vocab_size": self._options.vocab_size, "max_length": self._options.length, "pad_token_id": 0, **second}

    @property
    def length(self) -> int:
        """Tokens of a row; all have this many."""
        return self._options.length

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """`size` rows of an epoch's permutation; the masks are those of the step."""
        rows = self._rows["train"]
        chosen, pairs = self._read(rows[sampler.indices(len(rows), seed, step, size)])
        batch = as_batch(chosen, mask(chosen, self._choice, sampler.generator(seed, step, sampler.MASKS)))
        return {**batch, **pairs, **weights(pairs)}

    def _read(self, rows: np.ndarray) -> tuple[np.ndarray, Batch]:
        """Prepared rows as tokens, and what a batch says about pairs of texts, if rows have them."""
        if not self._options.next_sentence:
            return rows, {}
        tokens, *found = read_pairs(rows, self._prepared.most_pairs)
        return tokens, dict(zip(PAIRS, map(torch.from_numpy, found), strict=True))

    def batches(self, split: str, size: int) -> Iterator[Batch]:
        """Every row once, in order, with masks that are always the same."""
        check_split(self, split)
        at_least("size", size, 1)
        rows = self._rows[split]
        for first in range(0, len(rows), size):
            last = min(first + size, len(rows))
            tokens, pairs = self._read(rows[first:last])
            yield {**as_batch(tokens, self._held_out(split, first, last)), **pairs}

    def _held_out(self, split: str, first: int, last: int) -> Masked:
        """Rows [first, last) of a split. Masks are drawn for whole blocks of rows, so that they depend neither on the
        size of a batch nor on a limit."""
        stream, start = 1 + SPLITS.index(split), first // BLOCK
        every = [
            mask(
                self._read(self._prepared.rows[split][number * BLOCK : (number + 1) * BLOCK])[0],
                self._choice,
                sampler.generator(0, number, sampler.MASKS, stream),
            )
            for number in range(start, (last - 1) // BLOCK + 1)
        ]
        shift = start * BLOCK
        return Masked(*(np.concatenate(one)[first - shift : last - shift] for one in zip(*every, strict=True)))

    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """The sums of `score_tokens` over masked positions; logits [B, M, V]."""
        return score_tokens(logits, batch["labels"])

    def score_output(self, output: Any, batch: Batch) -> dict[str, float]:
        """The sums of `score`, and those over pairs of texts if there are any."""
        found = self.score(output.logits, batch)
        if not self._options.next_sentence:
            return found
        pairs = score_tokens(output.next_sentence_logits.float(), batch["next_sentence_targets"])
        return found | {f"next_{name}": value for name, value in pairs.items()}

    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Loss in nats per masked token, and the share that the likeliest token gets right; of pairs of texts, the loss
        and the share that is told apart."""
        tokens = check_totals(self, totals, "tokens")
        found = {"loss": totals["nll"] / tokens, "accuracy": totals["correct"] / tokens}
        if not (pairs := totals.get("next_tokens", 0.0)):
            return found
        return found | {"next_loss": totals["next_nll"] / pairs, "next_accuracy": totals["next_correct"] / pairs}

    def save_with(self, folder: Path) -> None:
        names = dict(zip(NAMES, SPECIAL, strict=True))
        save_tokenizer(folder, self._tokenizer, {**names, "model_max_length": self.length})

    def same_tokens(self, folder: Path) -> bool:
        from tokenizers import Tokenizer

        other = Tokenizer.from_file(str(folder / TOKENIZER))
        return other.get_vocab() == self._tokenizer.get_vocab()

    def remarks(self) -> dict[str, dict[str, int]]:
        counts = {split: one.get("also_in_train", 0) for split, one in self._prepared.manifest["splits"].items()}
        found = {split: count for split, count in counts.items() if count}
        return {"also in train": found} if found else {}

    def describe(self) -> dict[str, Any]:
        manifest = self._prepared.manifest
        kept = ("source", "subwords", "vocab_size", "length", "documents", "characters", "splits")
        return {
            "task": self.name,
            **{name: manifest[name] for name in kept},
            **({"next_sentence": True} if self._options.next_sentence else {}),
            "masked": {"count": self._options.count, "by": self._options.mask},
            "valid_rows": len(self._rows["valid"]),
            "sha256": manifest["files"],
        }


def as_batch(rows: np.ndarray, masked: Masked) -> Batch:
    """Rows and their masks as a model takes them."""
    return {
        "input_ids": torch.from_numpy(masked.tokens),
        "seq_idx": torch.from_numpy(piece_numbers(rows)),
        "masked_positions": torch.from_numpy(masked.positions),
        "labels": torch.from_numpy(masked.labels),
    }


def weights(pairs: Batch) -> Batch:
    """The share of each label in a mean over the labels that count, whichever part of the batch they end up in."""
    if not pairs:
        return {}
    counts = (pairs["next_sentence_targets"] != IGNORED).float()
    return {"next_sentence_weights": counts / counts.sum().clamp(min=1)}
