"""Inputs of models: tokens or their vectors, checked. A wrong one is one clear line.

Compiled and exported models skip what would bind their shapes or read their numbers. On a GPU no number is read, since
that would wait for it: there, a number outside of its table is an error of CUDA.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Text(NamedTuple):
    """Tokens as a model reads them, [B, T] each, or their vectors [B, T, width]. Documents are those of the mask unless
    they are given."""

    ids: Tensor | None = None
    mask: Tensor | None = None
    types: Tensor | None = None
    positions: Tensor | None = None
    embeds: Tensor | None = None
    documents: Tensor | None = None

    def given(self, prefix: str = "") -> Tensor:
        """Tokens or vectors, of which one is given; it says how many tokens there are, and on which device."""
        if (self.ids is None) == (self.embeds is None):
            both = "both" if self.ids is not None else "neither"
            raise ValueError(f"Pass either {prefix}input_ids or {prefix}inputs_embeds; got {both}.")
        return self.ids if self.ids is not None else self.embeds  # pyright: ignore[reportReturnType]


def check_mask(mask: Tensor) -> None:
    """Refuse a mask that is neither [batch, tokens] nor [batch, heads or 1, queries, keys]."""
    if mask.ndim not in (2, 4):
        raise ValueError(
            f"attention_mask has shape {list(mask.shape)}: use [batch, tokens], or [batch, 1, queries, keys] to say "
            "for each token at which others it looks."
        )


def check_positions(positions: Tensor, given: Tensor) -> None:
    """Refuse positions that are not one for each token."""
    if torch.compiler.is_compiling():
        return
    rows, length = given.shape[:2]
    if positions.ndim != 2 or positions.shape[0] not in (1, rows) or positions.shape[1] != length:
        raise ValueError(
            f"position_ids have shape {list(positions.shape)}: the tokens need [{rows}, {length}], a position for each."
        )


def check_seq_idx(seq_idx: Tensor, given: Tensor) -> None:
    """Refuse numbers of texts that are not one for each token."""
    if not torch.compiler.is_compiling() and seq_idx.shape != given.shape[:2]:
        raise ValueError(
            f"seq_idx has shape {list(seq_idx.shape)}: the tokens need {list(given.shape[:2])}, for each the number of "
            "its text in the row."
        )


def check_labels(labels: Tensor, logits: Tensor, name: str = "labels") -> None:
    """Refuse labels that are not one for each vector of logits."""
    if not torch.compiler.is_compiling() and labels.shape != logits.shape[:-1]:
        raise ValueError(
            f"{name} have shape {list(labels.shape)}, and there are logits for {list(logits.shape[:-1])}: give one "
            "label for each, -100 where none counts."
        )


def look_up(table: nn.Module, numbers: Tensor, name: str) -> Tensor:
    """Rows of a table of vectors; numbers that it does not have are named."""
    if torch.compiler.is_compiling():
        return table(numbers)
    try:
        return table(numbers)
    except IndexError:
        if not isinstance(table, nn.Embedding):
            raise
        wrong = numbers[(numbers < 0) | (numbers >= table.num_embeddings)][0].item()
        raise ValueError(
            f"{name} hold {wrong}, and this model has {table.num_embeddings:,}: use 0 to {table.num_embeddings - 1:,}."
        ) from None
