"""Text classification: sequences of any length, padded to one of a few lengths."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from ..text.tokenizers import save_tokenizer
from .batching import Buckets, Chosen, TokenRows
from .measures import CLASSES
from .task import Arrays, Data, Task, class_counts, hashes

__all__ = ["CLS", "PAD", "SPECIAL", "LabelledRows", "SequenceTask", "TokenRows"]

PAD, CLS = 0, 1
SPECIAL = ("[PAD]", "[CLS]")
"""The tokens that every vocabulary here begins with; each sequence begins with CLS."""


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
