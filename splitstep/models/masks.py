"""Who may look at whom, and where tokens stand: barriers and positions from the masks that callers pass."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ..fields import barrier
from ..fields.attention import running_type
from .cache import Past
from .inputs import Text, check_mask, check_positions, check_seq_idx


def positions_of(mask: Tensor | None, length: int, past: int | Tensor, device: torch.device) -> Tensor:
    """Positions [B or 1, T] of the newest tokens; padding on the left does not count."""
    if mask is not None:
        check_mask(mask)
    if mask is None or mask.ndim == 4:
        return (torch.arange(length, device=device) + past)[None]
    counts = (mask.long().cumsum(-1) - 1).clamp(min=0)
    if isinstance(past, int):
        return counts[:, -length:]
    return counts.index_select(1, torch.arange(length, device=device) + past)


def whole_barrier(mask: Tensor, like: Tensor) -> Tensor:
    """The barrier of a mask [B, 1 or heads, T, S] that leaves nothing to add: True or 1 where a query looks, or floats
    that are added to its scores."""
    mask = mask.to(like.device)
    if mask.is_floating_point():
        return mask.to(running_type(like))
    return barrier(mask.bool(), running_type(like))


def packed_documents(positions: Tensor) -> Tensor:
    """The number of each token's text in rows [B, T] of several texts each, from 1: a text begins where positions do
    not go on by one. transformers reads such positions in the same way."""
    return functional.pad((positions[:, 1:] != positions[:, :-1] + 1).long(), (1, 0)).cumsum(-1) + 1


def packed_mask(text: Tensor) -> Tensor:
    """Who looks at whom in rows of several texts each, [B, 1, T, T]: a token looks at earlier ones of its own text."""
    return (text[:, None, :] == text[:, :, None]).tril()[:, None]


def numbered_texts(seq_idx: Tensor, mask: Tensor | None) -> Tensor:
    """The number of each token's text in packed rows [B, T], from 1, and 0 for padding, as `seq_idx` and mask say."""
    if mask is None:
        return seq_idx.long() + 1
    if mask.ndim != 2:
        raise ValueError(
            f"seq_idx says who looks at whom, and so does an attention_mask of shape {list(mask.shape)}: leave one out."
        )
    return torch.where(mask.bool(), seq_idx.long() + 1, 0)


def same_text(text: Tensor) -> Tensor:
    """Who looks at whom in packed rows that are read both ways, [B, 1, T, T]: tokens of one text at each other."""
    return (text[:, None, :] == text[:, :, None])[:, None]


def restarting_positions(text: Tensor) -> Tensor:
    """Positions [B, T] in packed rows: they begin anew where the number of the text changes."""
    index = torch.arange(text.shape[1], device=text.device)
    begins = functional.pad(text[:, 1:] != text[:, :-1], (1, 0), value=True)
    return index - torch.where(begins, index, 0).cummax(-1).values


def numbered(text: Text, seq_idx: Tensor | None) -> Text:
    """Rows of several texts each, of which `seq_idx` numbers those of each token: none looks at another, and positions
    begin anew with each."""
    if seq_idx is None:
        return text
    check_seq_idx(seq_idx, text.given())
    texts = numbered_texts(seq_idx, text.mask)
    positions = restarting_positions(texts) if text.positions is None else text.positions
    return text._replace(mask=same_text(texts), positions=positions, documents=texts)


def restarted(text: Text) -> Text:
    """Rows of several texts each, which begin anew where positions do."""
    if text.positions is None or text.mask is not None:
        return text
    check_positions(text.positions, text.given())
    texts = packed_documents(text.positions)
    return text._replace(mask=packed_mask(texts), documents=texts)


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
    """The barrier to padding keys, the same for every query, [B, 1, 1, S], in the type of `like`."""
    if mask is not None:
        check_mask(mask)
    if mask is None or mask.ndim == 4:
        return None if mask is None else whole_barrier(mask, like)
    return barrier(mask.bool()[:, None, None, :], running_type(like))


def causal_mask(mask: Tensor | None, length: int, past: Past, like: Tensor) -> Tensor | None:
    """The barrier to the future, to padding and to the unused room of a static cache, [B, 1, T, S], in the type of
    `like` and on its device; None if a causal kernel needs no mask."""
    if mask is not None:
        check_mask(mask)
    if mask is not None and mask.ndim == 4:
        return whole_barrier(mask, like)
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
