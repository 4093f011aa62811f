"""The tokens of rows, which of them are scored and how many bytes they cover; batches, and how a model reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...text.instructions import Row
from ...text.token_bytes import TokenBytes, token_bytes, utf8

LIMITS = ("max_position_embeddings", "n_positions", "max_positions")  # as configs call how many tokens they read


class Causal(NamedTuple):
    """A causal model of Hugging Face and its tokenizer."""

    model: Any
    tokenizer: Any


class ScoredTokens(NamedTuple):
    """Tokens, which of them are scored, and how many bytes those cover. The first token is never scored."""

    ids: list[int]
    scored: list[bool]
    size: int


class Batch(NamedTuple):
    """Texts padded on the right, [B, T] each."""

    ids: Tensor
    real: Tensor
    scored: Tensor


def answer_tokens(tokenizer: Any, row: Row) -> ScoredTokens:
    """A row's tokens; those that end inside of the answer are scored. A token over the border is, too: its bits are
    counted whole, and of its bytes those of the answer."""
    found = token_bytes(tokenizer, row.prompt + row.answer)
    border = len(utf8(row.prompt))
    scored = ~found.special & (found.ends > border)
    return with_start(tokenizer, found, scored, int(found.ends[-1]) - border)


def text_tokens(tokenizer: Any, text: str) -> ScoredTokens:
    """The tokens of a text, all scored."""
    found = token_bytes(tokenizer, text)
    return with_start(tokenizer, found, ~found.special, int(found.ends[-1]))


def with_start(tokenizer: Any, found: TokenBytes, scored: np.ndarray, size: int) -> ScoredTokens:
    """The first token has to follow something: if it is scored, the tokenizer's first token is put before it, or its
    last one. If there is neither, the first token is not scored, and its bytes are not counted."""
    ids, marks = found.ids.tolist(), scored.tolist()
    if not marks[0]:
        return ScoredTokens(ids, marks, size)
    start = start_token(tokenizer)
    if start is not None:
        return ScoredTokens([start, *ids], [False, *marks], size)
    return ScoredTokens(ids, [False, *marks[1:]], size - int(found.ends[0]))


def start_token(tokenizer: Any) -> int | None:
    """The token that begins a text, else the one that ends it."""
    return tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id


def prompt_tokens(tokenizer: Any, prompt: str) -> list[int]:
    """A prompt's tokens, without any that the tokenizer adds at the end."""
    found = token_bytes(tokenizer, prompt)
    ids = found.ids[: found.content[1]].tolist() if found.content[1] else found.ids.tolist()
    if ids:
        return ids
    start = start_token(tokenizer)
    if start is None:
        raise ValueError("the prompt is empty, and the tokenizer has no first token: write a prompt")
    return [start]


def batches(
    texts: Sequence[ScoredTokens], size: Callable[[int], int], device: torch.device
) -> Iterator[tuple[list[int], Batch]]:
    """Texts of about equal length together, the longest first, with their numbers. `size` is how many, as a function of
    the most tokens of one."""
    order = sorted(range(len(texts)), key=lambda k: -len(texts[k].ids))
    while order:
        rows = size(len(texts[order[0]].ids))
        chosen, order = order[:rows], order[rows:]
        yield chosen, padded([texts[k] for k in chosen], device)


def padded(texts: Sequence[ScoredTokens], device: torch.device) -> Batch:
    length = max(len(text.ids) for text in texts)
    lacks = [length - len(text.ids) for text in texts]
    ids = torch.tensor([[*text.ids, *[0] * n] for text, n in zip(texts, lacks, strict=True)])
    scored = torch.tensor([[*text.scored, *[False] * n] for text, n in zip(texts, lacks, strict=True)])
    real = torch.tensor([[1] * len(text.ids) + [0] * n for text, n in zip(texts, lacks, strict=True)])
    return Batch(ids.to(device), real.to(device), scored.to(device))


def device_of(model: Any) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def reading(*models: Any) -> Iterator[None]:
    """Models without dropout and gradients; afterwards each is in its mode again."""
    modes = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for model, mode in zip(models, modes, strict=True):
            model.train(mode)


def most_tokens(model: Any) -> int | None:
    """How many tokens a model can read, as its config says; None if it has no limit."""
    entries = model.config.to_dict()
    return next((entries[name] for name in LIMITS if entries.get(name)), None)


def check_length(model: Any, texts: Sequence[ScoredTokens]) -> None:
    """Refuse texts that are longer than the model can read."""
    most = most_tokens(model)
    for number, text in enumerate(texts):
        if most is not None and len(text.ids) > most:
            raise ValueError(
                f"row {number} has {len(text.ids)} tokens, and the model reads at most {most}: leave it out, or "
                "shorten its answer"
            )
