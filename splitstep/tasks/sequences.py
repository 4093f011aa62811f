"""Text classification: rows of tokens with a class or a number, padded to one of a few lengths."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np

from ..options import at_least
from ..text.splits import ranked_by_class
from ..text.subwords import LEARN
from ..text.tokenizers import mark_sentences, same_vocabulary, save_tokenizer, saved_tokenizer, sentence_ids
from .batching import Buckets, Chosen, TokenRows, fitting_buckets
from .cache import derived
from .measures import CLASSES, LABELS, NUMBERS, spearman
from .task import Arrays, Batch, Data, Task, also_in, class_counts, hashes

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CLS", "PAD", "SPECIAL", "LabelledRows", "Sentences", "SequenceTask", "TokenRows"]

PAD, CLS = 0, 1
SPECIAL = ("[PAD]", "[CLS]")
"""The tokens that every vocabulary here begins with; each sequence begins with CLS."""
FORMAT = 1  # to be raised when the same texts give other tokens, so no old cache is read
WIDTHS = 4  # shapes of a batch: compiled code and CUDA graphs are kept per shape


class LabelledRows(Task):
    """Rows of tokens, each with a class or a number, in buckets; `labels` are [B]."""

    model: ClassVar[str] = "sequence"
    rows: Mapping[str, TokenRows]
    buckets: Buckets

    def describe(self) -> dict[str, Any]:
        labels = {split: one.labels for split, one in self.rows.items()}
        return {
            "task": self.name,
            "source": self.data.source,
            "vocab_size": self.shape["vocab_size"],
            "examples": {split: len(found) for split, found in labels.items()},
            **({"classes": class_counts(labels, len(self.labels))} if self.labels else {}),
            "tokens": {split: len(one.tokens) for split, one in self.rows.items()},
            "longest": {split: int(one.lengths.max()) for split, one in self.rows.items()},
            "buckets": self.buckets.describe(),
            "sha256": hashes({split: one.tokens for split, one in self.rows.items()}),
        }


class SequenceTask(LabelledRows):
    """A text-classification task: `input_ids` and `attention_mask` are [B, bucket].

    Of the data, examples are `TokenRows`, and the reader is the tokenizer that made them. `buckets` are padded lengths,
    of which the last must hold the longest sequence and its CLS; `vocab_size` is as wanted, even if fewer were found.
    """

    measure = CLASSES

    def __init__(self, name: str, options: Any, data: Data) -> None:
        from tokenizers.processors import TemplateProcessing

        self.name, self.options, self.data, self.labels = name, options, data, data.labels
        self.rows, self.tokenizer, buckets = data.splits, data.reader, tuple(data.more["buckets"])
        first = f"{SPECIAL[CLS]} $A"
        self.tokenizer.post_processor = TemplateProcessing(single=first, special_tokens=[(SPECIAL[CLS], CLS)])
        self.batching = self.buckets = Buckets(buckets, {split: 1 + one.lengths for split, one in self.rows.items()})
        longest = 1 + max(int(one.lengths.max()) for one in self.rows.values())
        if longest > buckets[-1]:
            raise ValueError(
                f'task "{name}": the longest example has {longest} tokens and the last of the buckets '
                f"{list(buckets)} holds {buckets[-1]}; nothing is cut here, so add a bucket of at least {longest}"
            )

    @property
    @final
    def shape(self) -> dict[str, int]:
        vocab_size = self.data.more.get("vocab_size") or self.tokenizer.get_vocab_size()
        return {"vocab_size": vocab_size, "max_length": self.buckets.widths[-1], "labels": len(self.labels)}

    @final
    def collate(self, chosen: Chosen) -> Arrays:
        found = self.rows[chosen.split]
        ids, mask = found.padded(chosen.rows, chosen.width - 1, PAD)
        return {
            "input_ids": np.insert(ids, 0, CLS, axis=1),
            "attention_mask": np.insert(mask.astype(np.int64), 0, 1, axis=1),
            "labels": found.labels[chosen.rows].astype(np.int64),
        }

    @final
    def save_with(self, folder: Path) -> None:
        length = self.buckets.widths[-1]
        entries = {"pad_token": SPECIAL[PAD], "cls_token": SPECIAL[CLS], "model_max_length": length}
        save_tokenizer(folder, self.tokenizer, entries)


class Examples(NamedTuple):
    """The texts of each example, one or two, and the classes (whole numbers) or numbers."""

    texts: list[tuple[str, ...]]
    labels: np.ndarray


@dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    """`length`: the most tokens of an example, the longer text is cut; `vocab`: the most tokens that are learnt;
    `tokenizer`: bpe or wordpiece, learnt from the training text, or the run or model whose tokenizer is used. With a
    recipe's `start` it is that of the start, and so is the `length` if it is 0; else that is 128."""

    length: int = 0
    vocab: int = 8_000
    tokenizer: str = "bpe"

    def __post_init__(self) -> None:
        at_least("length", self.length or None, 8)
        at_least("vocab", self.vocab, 300)  # 256 bytes, the special tokens and some pairs


class Reader(NamedTuple):
    """Text to tokens: the tokenizer, the numbers of its marks, and what a model that has it dictates."""

    tokenizer: Any
    ids: dict[str, int]
    length: int
    entries: dict[str, Any]  # of the model's config; empty if the tokenizer was learnt here

    def encode(self, examples: Examples) -> TokenRows:
        """The tokens of examples, marked by their types."""
        lines = self.tokenizer.encode_batch_fast([one[0] if len(one) == 1 else one for one in examples.texts])
        tokens, types = ([getattr(line, name) for line in lines] for name in ("ids", "type_ids"))
        offsets = np.cumsum([0, *map(len, tokens)])
        flat = np.concatenate(tokens).astype(np.uint32)
        return TokenRows(flat, offsets, examples.labels, np.concatenate(types).astype(np.uint8))


def make_reader(texts: Sequence[tuple[str, ...]], options: SentenceOptions) -> Reader:
    """The tokenizer that the options name, or the one learnt from the training texts, kept in the cache."""
    from tokenizers import Tokenizer

    if options.tokenizer in LEARN:
        written, entries, where = learnt(texts, options), {}, "this task"
    else:
        (written, entries), where = saved_tokenizer(options.tokenizer), options.tokenizer
    most = entries.get("max_positions") or 0
    if options.length > (most or options.length):
        raise ValueError(f"option length is {options.length}, and {where} reads {most} tokens: use at most {most}")
    length = options.length or min(128, most or 128)
    tokenizer = Tokenizer.from_str(written)
    ids = sentence_ids(tokenizer, where)
    mark_sentences(tokenizer, ids, length)
    return Reader(tokenizer, ids, length, entries)


def learnt(texts: Sequence[tuple[str, ...]], options: SentenceOptions) -> str:
    """The tokenizer learnt from these texts, as JSON."""
    digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    parameters = {"data": digest, "vocab": options.vocab, "kind": options.tokenizer, "format": FORMAT}

    def make() -> Arrays:
        found = LEARN[options.tokenizer]((text for one in texts for text in one), options.vocab)
        return {"tokenizer": np.array(found.to_str())}

    return str(derived("sentences", parameters, ["tokenizer"], make)["tokenizer"])


def hold_out(examples: Examples, share: float, seed: int = 0) -> tuple[Examples, Examples]:
    """The examples that stay, and a share of each class: those with the lowest hashes of seed and text."""
    hashes = [hashlib.sha256(json.dumps([seed, *one]).encode()).hexdigest() for one in examples.texts]
    whole = np.issubdtype(examples.labels.dtype, np.integer)
    groups = ranked_by_class(hashes, examples.labels if whole else np.zeros(len(hashes)))
    taken = np.concatenate([group[: min(round(share * len(group)), len(group) - 1)] for group in groups])
    rows = np.sort(taken if len(taken) else max(groups, key=len)[:1])  # of a tiny file, at least one
    rest = np.setdiff1d(np.arange(len(hashes)), rows)
    ours, theirs = (Examples([examples.texts[i] for i in part], examples.labels[part]) for part in (rest, rows))
    return ours, theirs


@final
class Sentences(LabelledRows):
    """One or two texts with a class or a number; `input_ids`, `attention_mask` and, if the model has types,
    `token_type_ids` are [B, bucket].

    Of the data, splits are `Examples`; without names of classes, labels are numbers.
    """

    own_tokens: ClassVar[bool] = False

    def __init__(self, name: str, options: SentenceOptions, data: Data) -> None:
        self.name, self.options, self.data, self.labels = name, options, data, data.labels
        self.examples: Mapping[str, Examples] = data.splits
        self.splits = tuple(self.examples)
        self.measure = data.measure or (LABELS if self.labels else NUMBERS)
        self.reader = make_reader(self.examples["train"].texts, options)
        self.rows = {split: self.reader.encode(one) for split, one in self.examples.items()}
        lengths = {split: one.lengths for split, one in self.rows.items()}
        self.batching = self.buckets = fitting_buckets(lengths, WIDTHS)

    @property
    def tests(self) -> tuple[str, ...]:
        return self.splits[2:]

    @property
    def texts(self) -> int:
        """How many texts an example has, one or two."""
        return len(self.examples["train"].texts[0])

    @property
    def shape(self) -> dict[str, int]:
        """A model whose tokenizer is used dictates its vocabulary, its positions and its types."""
        known, longest = self.reader.entries, max(self.reader.length, self.buckets.widths[-1])
        return {
            "vocab_size": known.get("vocab_size", self.reader.tokenizer.get_vocab_size()),
            "max_length": known.get("max_positions", longest),
            "labels": len(self.labels) or 1,
            "token_types": known.get("token_types", 2 if self.texts == 2 else 0),
        }

    def collate(self, chosen: Chosen) -> Arrays:
        found, rows, width = self.rows[chosen.split], chosen.rows, chosen.width
        ids, mask = found.padded(rows, width, self.reader.ids["[PAD]"])
        types = {"token_type_ids": found.padded_marks(rows, width)} if self.shape["token_types"] else {}
        labels = found.labels[rows].astype(np.int64 if self.labels else np.float32)
        return {"input_ids": ids, "attention_mask": mask.astype(np.int64), **types, "labels": labels}

    def items(self, batch: Batch) -> int:
        return len(batch["labels"])

    def predictions(self, logits: "Tensor", batch: Batch) -> "Tensor | None":
        import torch

        if self.labels:
            return None
        return torch.stack([logits.flatten().double(), batch["labels"].double()], 1)

    def summary_of_all(self, predictions: "Tensor") -> dict[str, float]:
        found, wanted = predictions.unbind(1)
        return {"spearman": spearman(found.numpy(), wanted.numpy())}

    def save_with(self, folder: Path) -> None:
        marks = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
        has = {name: mark for name, mark in marks.items() if self.reader.tokenizer.token_to_id(mark) is not None}
        inputs = ["input_ids", *["token_type_ids"] * (self.shape["token_types"] > 0), "attention_mask"]
        entries = {**has, "model_max_length": self.reader.length, "model_input_names": inputs}
        save_tokenizer(folder, self.reader.tokenizer, entries)

    def same_tokens(self, folder: Path) -> bool:
        return same_vocabulary(saved_tokenizer(str(folder)).text, self.reader.tokenizer)

    def oddities(self) -> dict[str, dict[str, int]]:
        texts = {split: one.texts for split, one in self.examples.items()}
        return {"also in train": also_in(set(texts["train"]), texts)}

    def describe(self) -> dict[str, Any]:
        found, written = super().describe(), self.reader.tokenizer.to_str()
        labels = {f"labels of {split}": one.labels for split, one in self.rows.items()}
        return found | {
            "texts": self.texts,
            "also_in_train": self.remarks().get("also in train", {}),
            "tokenizer_sha256": hashlib.sha256(written.encode()).hexdigest(),
            "sha256": found["sha256"] | hashes(labels),
        }
