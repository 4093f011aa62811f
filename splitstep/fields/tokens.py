"""Which tokens a field may mix: those of one document, without padding, in causal models none that comes later."""

import torch
from torch import Tensor

from .context import EMPTY, Context


def visible(y: Tensor, context: Context | None, causal: bool) -> tuple[Tensor, Tensor]:
    """What a field that mixes tokens needs of what it has worked out for each, [B, T, width]: the same of all tokens,
    [B, S, width], earlier ones from the cache, and which of them each token may mix, itself included, [B or 1, T, S].

    Its letter declares mixes=True, documents=True and state="all inputs".
    """
    context = context or EMPTY
    states, new = states_of(y, context)
    if causal:
        return states, earlier(context.documents, new, states.shape[1])
    return states, together(context.documents, y)


def together(documents: Tensor | None, x: Tensor) -> Tensor:
    """Which tokens of x are of one document, [B or 1, T, T]; padding is a document of its own."""
    tokens = torch.arange(x.shape[1], device=x.device)
    own = (tokens[:, None] == tokens)[None]
    if documents is None:
        return torch.ones_like(own)
    documents = documents.to(x.device)
    return ((documents[:, :, None] == documents[:, None]) & (documents > 0)[:, None]) | own


def states_of(x: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """The states of all tokens, earlier ones from the cache, [B, S, width], and where the new ones x stand, [T]."""
    new = torch.arange(x.shape[1], device=x.device)
    if context.cache is None:
        return x, new
    new = new + context.cache.get_seq_length(context.slot)
    kept, _ = context.cache.update(x[:, None], x[:, None, :, :1], context.slot)  # values are of no use here
    return kept[:, 0], new


def earlier(documents: Tensor | None, new: Tensor, tokens: int) -> Tensor:
    """Which tokens are of a new one's document and not after it, itself included; [B or 1, T, S]."""
    everywhere = torch.arange(tokens, device=new.device)
    behind = (everywhere <= new[:, None])[None]
    if documents is None:
        return behind
    documents = documents.to(new.device)
    if documents.ndim == 2:
        mine = documents.index_select(1, new)[:, :, None]
        documents = (mine == documents[:, None]) & (mine > 0)
    return (behind & documents) | (everywhere == new[:, None])
