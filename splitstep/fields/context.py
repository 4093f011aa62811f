"""What a field is built from, what it reads besides the time and the state, and which tokens it may mix: those of one
document, without padding, in causal models none that comes later."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class FieldSpec:
    """What a model builds a field from: its place in the network, and its shape as the config gives it."""

    width: int
    norm: Callable[[], nn.Module] = nn.Identity  # makes the norm that is applied to x; none in post-norm schemes
    output_norm: Callable[[], nn.Module] = nn.Identity  # makes the norm of what a network returns: sandwich norms
    projection: Callable[[], nn.Module] = nn.Identity  # makes the norm that the model's projections have
    name: str = ""  # its letter, and a number if the letter has several sets of weights: F0
    layer: int = 0
    salt: int = 0  # unique: dropout masks may use 4 * salt and 4 * salt + 1
    once: bool = True  # whether one pass through a layer evaluates the field only once
    heads: int = 1
    kv_heads: int | None = None  # None: as many as heads
    head_size: int | None = None  # None: width / heads
    ffn: int | None = None  # the inner width of a feed-forward field
    activation: str | None = "gelu"
    bias: bool = True
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    causal: bool = False  # whether tokens look back only
    grid: tuple[int, int] | None = None  # rows and columns of an image's patches
    options: Any = None  # of the letter, for this field; None: the usual ones


class WithoutProducts(nn.Module):
    """A field without matrix products."""

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation in matrix products: none."""
        return 0


Record = Callable[[str, Tensor], None]  # ("own" or "cross", attention weights [B, heads, T, S])


class Context(NamedTuple):
    """Masks, positions, cache, encoder states and the dropout seed of one forward pass.

    Shapes: B batch, T queries, S keys, R rows of the encoder's states, E width per head.
    """

    mask: Tensor | None = None  # [B or 1, 1, T or 1, S], True if the query sees the key, or `barrier` of it; None: all
    causal: bool = False  # no query sees later keys; only without `mask`
    rotary: tuple[Tensor, Tensor] | None = None  # cosine and sine, [B or 1, 1, T, E]
    cache: Any = None  # keeps keys and values: update(k, v, slot) -> (k, v)
    cross_cache: Any = None  # the same for the encoder's states; known(slot) -> (k, v), or None before the first update
    slot: int | None = None  # where this evaluation keeps its keys and values
    cross_slot: int | None = None
    memory: Tensor | None = None  # encoder states, [B, R, width]
    memory_mask: Tensor | None = None  # like `mask`, for the encoder's states, [B, 1, 1, R]
    seed: Tensor | None = None  # an integer; None: no dropout
    documents: Tensor | None = None  # [B, S]: of each key, 0 for padding; None: one in each row; causal models may have
    # [B, T, S] instead: whether a key is of the query's document
    shared: Mapping[str, Any] | None = None  # what all layers need and one of their fields has worked out, by its name
    record: Record | None = None  # is told the attention weights of every evaluation, before dropout


EMPTY = Context()


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
