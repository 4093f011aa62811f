"""Inputs of models, checked, and what they say: who may look at whom, and where tokens stand. A wrong one is one clear
line.

Compiled and exported models skip what would bind their shapes or read their numbers. On a GPU no number is read, since
that would wait for it: there, a number outside of its table is an error of CUDA.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..fields import barrier
from ..fields.attention import running_type
from .cache import Past


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


def check_per_token(numbers: Tensor, given: Tensor, name: str, what: str) -> None:
    """Refuse numbers that are not one for each token, of each row or of all rows alike."""
    rows, length = given.shape[:2]
    if not torch.compiler.is_compiling() and list(numbers.shape) not in ([1, length], [rows, length]):
        raise ValueError(f"{name} shape {list(numbers.shape)}: the tokens need [{rows}, {length}], {what}.")


def check_positions(positions: Tensor, given: Tensor) -> None:
    """Refuse positions that are not one for each token."""
    check_per_token(positions, given, "position_ids have", "a position for each")


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


def positions_of(mask: Tensor | None, length: int, past: int | Tensor, device: torch.device) -> Tensor:
    """Positions [B or 1, T] of the newest tokens; padding on the left does not count."""
    if mask is None or mask.ndim == 4:
        return (torch.arange(length, device=device) + past)[None]
    counts = (mask.long().cumsum(-1) - 1).clamp(min=0)
    if isinstance(past, int):
        return counts[:, -length:]
    return counts.index_select(1, torch.arange(length, device=device) + past)


def same_text(texts: Tensor) -> Tensor:
    """Who looks at whom in packed rows [B, T] of numbered texts, [B, 1, T, T]: tokens of one text at each other."""
    return (texts[:, None, :] == texts[:, :, None])[:, None]


def restarting_positions(texts: Tensor) -> Tensor:
    """Positions [B, T] in packed rows: they begin anew where the number of the text changes."""
    index = torch.arange(texts.shape[1], device=texts.device)
    begins = functional.pad(texts[:, 1:] != texts[:, :-1], (1, 0), value=True)
    return index - torch.where(begins, index, 0).cummax(-1).values


def numbered(text: Text, seq_idx: Tensor | None) -> Text:
    """Rows of several texts each, of which `seq_idx` numbers those of each token: none looks at another, and positions
    begin anew with each."""
    if seq_idx is None:
        return text
    check_per_token(seq_idx, text.given(), "seq_idx has", "for each the number of its text in the row")
    texts = seq_idx.long() + 1
    if text.mask is not None:
        if text.mask.ndim != 2:
            raise ValueError(
                "seq_idx says who looks at whom, and so does an attention_mask of shape "
                f"{list(text.mask.shape)}: leave one out."
            )
        texts = torch.where(text.mask.bool(), texts, 0)
    positions = restarting_positions(texts) if text.positions is None else text.positions
    return text._replace(mask=same_text(texts), positions=positions, documents=texts)


def restarted(text: Text) -> Text:
    """Rows of several texts each, in which a text begins where positions do not go on by one, and looks at its own
    earlier tokens. transformers reads such positions in the same way."""
    if text.positions is None or text.mask is not None:
        return text
    check_positions(text.positions, text.given())
    begins = text.positions[:, 1:] != text.positions[:, :-1] + 1
    texts = functional.pad(begins.long(), (1, 0)).cumsum(-1) + 1
    return text._replace(mask=same_text(texts).tril(), documents=texts)


def documents_of(mask: Tensor | None, causal: bool, room: int | None = None) -> Tensor | None:
    """The document of each key [B, S] as a mask shows it: 1, or 0 for padding and the unused room of a static cache.

    A mask [B, 1 or heads, T, S] shows which keys a query looks at. Two tokens that look at each other are of one
    document; in a causal model it is returned as it is, [B, T, S].
    """
    if mask is None:
        return None
    if mask.ndim == 2:
        return functional.pad(mask.bool().long(), (0, room - mask.shape[1])) if room else mask.bool().long()
    looks = mask[:, 0] > torch.finfo(mask.dtype).min / 2 if mask.is_floating_point() else mask[:, 0].bool()
    if causal:
        return looks
    looks = looks.expand(-1, looks.shape[-1], -1)
    same = (looks & looks.mT) | torch.eye(looks.shape[-1], dtype=torch.bool, device=mask.device)
    return same.int().argmax(-1) + 1


def padding_barrier(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """The barrier to padding keys, the same for every query, [B, 1, 1, S], in the type of `like`. A mask of four
    dimensions leaves nothing to add: it is True or 1 where a query looks, or floats that are added to its scores."""
    if mask is None:
        return None
    check_mask(mask)
    mask = mask.to(like.device) if mask.ndim == 4 else mask.bool()[:, None, None, :]
    return mask.to(running_type(like)) if mask.is_floating_point() else barrier(mask.bool(), running_type(like))


def causal_mask(mask: Tensor | None, length: int, past: Past, like: Tensor) -> Tensor | None:
    """The barrier to the future, to padding and to the unused room of a static cache, [B, 1, T, S], in the type of
    `like` and on its device; None if a causal kernel needs no mask."""
    if mask is not None and mask.ndim == 4:
        return padding_barrier(mask, like)
    seen, room = past
    if mask is None and room is None and (length == 1 or (isinstance(seen, int) and seen == 0)):
        return None
    keys = room
    if keys is None:
        assert isinstance(seen, int), "a cache that grows knows its length"
        keys = seen + length
    rows = torch.arange(length, device=like.device)[:, None] + seen
    visible = (torch.arange(keys, device=like.device) <= rows)[None, None]
    if mask is not None:
        given = mask.to(like.device).bool()
        visible = visible & functional.pad(given, (0, keys - given.shape[1]))[:, None, None, :]
    return barrier(visible, running_type(like))
