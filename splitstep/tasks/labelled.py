"""Text classification: sequences of any length, padded to one of a few lengths."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch

from ..text.tokenizers import save_tokenizer
from .bucketed import Bucketed
from .buckets import Buckets, padded
from .classes import Classes
from .task import Batch, hashes

PAD, CLS = 0, 1
SPECIAL = ("[PAD]", "[CLS]")
"""The tokens that every vocabulary here begins with; each sequence begins with CLS."""


class Ragged(NamedTuple):
    """N sequences one after another: example i is tokens[offsets[i]:offsets[i + 1]], of class labels[i]."""

    tokens: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each sequence [N]."""
        return np.diff(self.offsets)

    def part(self, first: int, last: int) -> "Ragged":
        """Examples [first, last)."""
        offsets = self.offsets[first : last + 1]
        return Ragged(self.tokens[offsets[0] : offsets[-1]], offsets - offsets[0], self.labels[first:last])


class Labelled(Bucketed, Classes):
    """A text-classification task: `input_ids` and `attention_mask` are [B, bucket], `labels` [B]."""

    model: ClassVar[str] = "sequence"

    def _load(
        self,
        texts: Mapping[str, Ragged],
        tokenizer: Any,
        vocab_size: int,
        labels: Sequence[str],
        buckets: tuple[int, ...],
        source: dict[str, Any],
    ) -> None:
        """Take the sequences and the tokenizer that made them; the last bucket must hold the longest and its CLS."""
        from tokenizers.processors import TemplateProcessing

        tokenizer.post_processor = TemplateProcessing(single=f"{SPECIAL[CLS]} $A", special_tokens=[(SPECIAL[CLS], CLS)])
        self._texts, self._tokenizer, self._vocab_size = dict(texts), tokenizer, vocab_size
        self.labels, self._source = tuple(labels), source
        self._buckets = Buckets(buckets, {split: 1 + text.lengths for split, text in texts.items()})
        longest = 1 + max(int(text.lengths.max()) for text in texts.values())
        if longest > buckets[-1]:
            raise ValueError(
                f'task "{self.name}": the longest example has {longest} tokens and the last of the buckets '
                f"{list(buckets)} holds {buckets[-1]}; nothing is cut here, so add a bucket of at least {longest}"
            )

    @property
    @final
    def shape(self) -> dict[str, int]:
        longest = self._buckets.widths[-1]
        return {"vocab_size": self._vocab_size, "max_length": longest, "labels": len(self.labels)}

    def _padded(self, split: str, rows: np.ndarray, width: int) -> Batch:
        text = self._texts[split]
        ids, mask = padded(text.tokens, text.offsets, rows, width - 1, PAD)
        return {
            "input_ids": torch.from_numpy(np.insert(ids, 0, CLS, axis=1)),
            "attention_mask": torch.from_numpy(np.insert(mask.astype(np.int64), 0, 1, axis=1)),
            "labels": torch.from_numpy(text.labels[rows].astype(np.int64)),
        }

    @final
    def save_with(self, folder: Path) -> None:
        length = self._buckets.widths[-1]
        entries = {"pad_token": SPECIAL[PAD], "cls_token": SPECIAL[CLS], "model_max_length": length}
        save_tokenizer(folder, self._tokenizer, entries)

    @final
    def describe(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": self._source,
            "vocab_size": self._vocab_size,
            **self._counts({split: text.labels for split, text in self._texts.items()}),
            "tokens": {split: len(text.tokens) for split, text in self._texts.items()},
            "longest": {split: int(text.lengths.max()) for split, text in self._texts.items()},
            "buckets": self._buckets.describe(),
            "sha256": hashes({split: text.tokens for split, text in self._texts.items()}),
        }
