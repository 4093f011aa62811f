"""Bits per byte: what a text costs under a model, over its length in bytes, so that tokenizers can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...text.instructions import Row
from ..records import wide
from .reading import (
    Batch,
    ScoredTokens,
    answer_tokens,
    batches,
    check_length,
    device_of,
    most_tokens,
    reading,
    rows_to_read,
    text_tokens,
)


class Bits(NamedTuple):
    """The bits that bytes cost: -log2 of the probability of their tokens."""

    bits: float
    bytes: int

    @property
    def per_byte(self) -> float:
        return self.bits / self.bytes if self.bytes else math.nan


def total(parts: Iterable[Bits]) -> Bits:
    """The bits and bytes of all parts."""
    found = list(parts)
    return Bits(math.fsum(one.bits for one in found), sum(one.bytes for one in found))


def answer_bits(model: Any, tokenizer: Any, rows: Sequence[Row], batch: int | None = None) -> list[Bits]:
    """What each row's answer costs after its prompt; the end of the answer is not scored."""
    texts = [answer_tokens(tokenizer, row) for row in rows]
    check_length(model, texts)
    costs = costs_of(model, texts, batch)
    return [Bits(cost, text.size) for cost, text in zip(costs, texts, strict=True)]


def text_bits(
    model: Any, tokenizer: Any, text: str, length: int, stride: int | None = None, batch: int | None = None
) -> Bits:
    """What a text costs, read in windows of `length` tokens.

    Each window but the first scores its last `stride` tokens, half of it unless told, so that each of them follows at
    least length - stride others.
    """
    step = length // 2 if stride is None else stride
    most = most_tokens(model)
    if not 0 < step < length or (most is not None and length > most):
        raise ValueError(
            f"windows of {length} tokens that move by {step}: use at least 2 and at most {most or 'any number'}, moved "
            "by at least 1 and fewer than they have"
        )
    whole = text_tokens(tokenizer, text)
    return Bits(math.fsum(costs_of(model, windows(whole, length, step), batch)), whole.size)


def windows(text: ScoredTokens, length: int, step: int) -> list[ScoredTokens]:
    """Windows that score each token once."""
    found, scored = list[ScoredTokens](), 0
    begin = 0
    while scored < len(text.ids):
        end = min(begin + length, len(text.ids))
        marks = [mark and place >= scored for place, mark in enumerate(text.scored[begin:end], begin)]
        found.append(ScoredTokens(text.ids[begin:end], marks, 0))
        scored, begin = end, begin + step
    return found


def costs_of(model: Any, texts: Sequence[ScoredTokens], batch: int | None) -> list[float]:
    """The bits of the scored tokens of each text, so many of which are read at once; None leaves it to the device."""
    costs = [0.0] * len(texts)
    with reading(model):
        for numbers, one in batches(texts, lambda tokens: batch or rows_to_read((model,), tokens), device_of(model)):
            for number, cost in zip(numbers, batch_costs(model, one).tolist(), strict=True):
                costs[number] = cost
    return costs


def batch_costs(model: Any, batch: Batch) -> Tensor:
    """The bits of the scored tokens of each text [B], in float64."""
    logits = model(input_ids=batch.ids, attention_mask=batch.real, use_cache=False).logits
    rows, places = batch.scored[:, 1:].nonzero(as_tuple=True)
    chosen = wide(logits[rows, places])
    logs = chosen.log_softmax(-1).gather(-1, batch.ids[rows, places + 1, None])[:, 0].double()
    costs = torch.zeros(len(batch.ids), dtype=torch.float64, device=logits.device)
    return costs.index_add(0, rows, -logs / math.log(2))
