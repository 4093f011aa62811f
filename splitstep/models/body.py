"""From tokens or patches to states: embedding, stack, final norm. No heads, no losses."""

from collections.abc import Iterator
from functools import partial
from itertools import count, product
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from ..fields import Context, FieldSpec, Projection, dropout, norm, rotary
from ..fields.attention import running_type
from ..fields.diffusion import TokenDiffusion
from ..integrate import Advance, At, Observe, Site, State
from ..letters import LETTERS
from ..scheme import Scheme
from ..shape import Shape, TextShape, feed_forwards
from ..stack import Stack
from .cache import CACHES, Past, caching, count_tokens, slots_of
from .config import SplitstepConfig
from .inputs import (
    Text,
    causal_mask,
    check_mask,
    check_positions,
    documents_of,
    look_up,
    padding_barrier,
    positions_of,
)
from .outputs import Look

EMBEDDING_SALT = 3  # fields use 4 * salt and 4 * salt + 1, so 3 is free


def norm_of(config: Shape, used: bool) -> nn.Module:
    """A norm as the config describes it, or none."""
    return norm(config.norm if used else "none", config.width, config.norm_eps, config.norm_affine)


def build_stack(config: SplitstepConfig, number: int, salts: Iterator[int]) -> Stack:
    """One of the config's stacks; the letters of its scheme make the fields."""
    (scheme, layers), causal = config.stacks()[number], config.causal_stacks()[number]
    config.check_letters()  # again: twins have other steps
    if causal:
        check_slots(scheme)
    ffn = [dict(zip(feed_forwards(scheme), row, strict=True)) for row in config.ffn_rows()[number]]

    def make(name: str, layer: int) -> nn.Module:
        salt = next(salts)
        if name in scheme.projections:
            return Projection(norm_of(config, True))
        many = config.activation if isinstance(config.activation, dict) else {name: config.activation}
        before, after = config.norms_of(name)
        spec = FieldSpec(
            width=config.width, norm=partial(norm_of, config, before), output_norm=partial(norm_of, config, after),
            projection=partial(norm_of, config, True),
            name=name, layer=layer, salt=salt,
            once=config.substeps * scheme.count(name) == 1 and not scheme.doubled, heads=config.heads,
            kv_heads=config.kv_heads, head_size=config.head_size, ffn=ffn[layer].get(name), activation=many.get(name),
            bias=config.bias, dropout=config.dropout, attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout, causal=causal, grid=config.grid,
            options=config.options_of(name),
        )  # fmt: skip
        return LETTERS[name[0]].make(spec)

    return Stack(scheme, layers, make, float(config.step), config.substeps)


def check_slots(scheme: Scheme) -> None:
    """Refuse a part whose fields would share one cache slot."""
    for (_, part), cache in product(scheme.substeps, CACHES):
        if sum(name[0] in caching(scheme, cache) for name in part.fields) > 1:
            raise ValueError(
                f"The part {'+'.join(part.fields)} of {str(scheme)!r} sums several fields that look at earlier tokens, "
                "which would share one cache slot: use more heads, or one part for each."
            )


def slots(stack: Stack) -> At:
    """The function that gives each evaluation with keys and values a cache slot of its own."""
    own, cross = (caching(stack.scheme, cache) for cache in CACHES)

    def at(context: Context, site: Site) -> Context:
        return context._replace(slot=stack.slot(site, own), cross_slot=stack.slot(site, cross))

    return at


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sinusoidal positions [.., T, width]: sines in the first half, cosines in the second."""
    half = width // 2
    rates = torch.exp(-log(10000.0) / max(half - 1, 1) * torch.arange(half, device=positions.device))
    angles = positions[..., None].float() * rates
    out = torch.cat((angles.sin(), angles.cos()), -1)
    return nn.functional.pad(out, (0, 1)) if width % 2 else out


def sinusoid_table(config: TextShape) -> Tensor:
    """The sinusoids of all positions up to `max_positions`, one row each: a look-up is one kernel instead of ten."""
    return sinusoids(torch.arange(config.max_positions), config.width)


class Embedding(nn.Module):
    """Tokens and their positions as states: scale * E[token] + position, normalised if the config says so."""

    sinusoids: Tensor | None

    def __init__(self, config: TextShape) -> None:
        super().__init__()
        self.config, self.reads_documents = config, config.reads_documents
        self.tokens = nn.Embedding(config.vocab_size, config.width, padding_idx=config.pad_token_id)
        self.positions = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        table = sinusoid_table(config) if config.positions == "sinusoidal" else None
        self.register_buffer("sinusoids", table, persistent=False)
        self.types = nn.Embedding(config.token_types, config.width) if config.token_types else None
        self.norm = norm_of(config, config.embedding_norm)

    def forward(
        self, text: Text, seed: Tensor | None = None, past: int | Past | None = None, salt: int = EMBEDDING_SALT
    ) -> tuple[Tensor, Context]:
        """The states of tokens, or of their vectors, and their context: causal after `past` earlier tokens; not causal
        if `past` is None."""
        given, mask, positions, documents = text.given(), text.mask, text.positions, text.documents
        length = given.shape[1]
        if mask is not None:
            check_mask(mask)
        earlier = past if isinstance(past, Past) else Past(past or 0)
        end = None if earlier.known is None else earlier.known + length
        if end is not None:
            self.config.check_length(end)
        known = positions is None and end is not None and end <= self.config.max_positions
        if positions is None:
            positions = positions_of(mask, length, earlier.tokens, given.device)
        else:
            check_positions(positions, given)
        x = self.vectors(text, positions, known)
        like = self.tokens.weight
        ahead = padding_barrier(mask, like) if past is None else causal_mask(mask, length, earlier, like)
        causal = past is not None and ahead is None and length > 1
        if documents is None and self.reads_documents:
            documents = documents_of(mask, past is not None, earlier.room)
        angles = rotary_angles(self.config, positions, like)
        context = Context(mask=ahead, causal=causal, rotary=angles, seed=seed, documents=documents)
        return dropout(self.norm(x), self.config.dropout, seed, salt), context

    def vectors(self, text: Text, positions: Tensor, known: bool) -> Tensor:
        """scale * E[token] + position + type; `known`: all positions are in the table of sinusoids."""
        x: Any = text.embeds if text.ids is None else look_up(self.tokens, text.ids, "input_ids")
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.positions is not None:
            x = x + look_up(self.positions, positions, "position_ids")
        elif self.sinusoids is not None:
            x = x + (self.sinusoids[positions] if known else sinusoids(positions, self.config.width)).to(x.dtype)
        if self.types is not None:
            nothing = torch.zeros(x.shape[:2], dtype=torch.long, device=x.device)
            x = x + look_up(self.types, nothing if text.types is None else text.types, "token_type_ids")
        return x


def rotary_angles(config: Shape, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """The rotary angles of these positions, if the config asks for them, in the type of products with `like`."""
    if config.positions != "rotary":
        return None
    return rotary(positions, config.head_width, config.rotary_base, running_type(like))


class Body(nn.Module):
    """Embedded states through one stack and its final norm."""

    def __init__(self, config: SplitstepConfig, number: int = 0, salts: Iterator[int] | None = None) -> None:
        super().__init__()
        self.stack = build_stack(config, number, count() if salts is None else salts)
        self.norm = norm_of(config, not self.stack.scheme.projections)
        self.slots = slots_of(self.stack.scheme, len(self.stack.layers) * self.stack.substeps)
        first, solved = self.stack.layers[0], self.stack.scheme.solved
        self.preparing = [name for name in solved if isinstance(first.get_submodule(name), TokenDiffusion)]
        self.gradient_checkpointing = False  # transformers sets these two
        self._gradient_checkpointing_func: Any = checkpoint

    def shown(self, x: Tensor, context: Context, look: Look) -> Tensor:
        """The states after the stack; `look` keeps what it wants of those within."""
        return self(x, context._replace(record=look.record), look.observe)

    def forward(self, x: Tensor, context: Context, observe: Observe | None = None) -> Tensor:
        cached = context.cache is not None or context.cross_cache is not None
        once = cached or observe is not None  # what must not happen again when a step is run again
        if context.cache is not None and not caching(self.stack.scheme, "self"):
            count_tokens(context.cache, x)
        for name in self.preparing:
            field: Any = self.stack.layers[0].get_submodule(name)
            context = field.prepared(x, context)
        run = self.recomputed if self.gradient_checkpointing and self.training and not once else None
        return self.norm(self.stack(x, context, observe, slots(self.stack) if cached else None, run=run))

    def recomputed(self, advance: Advance, x: State, context: Context) -> State:
        """One step whose inner states are not stored: the backward pass runs it again. Each tensor of the context is an
        argument of its own, because a reentrant checkpoint sends no gradient to tensors inside of others."""
        leaves, form = tree_flatten((x, context))
        return self._gradient_checkpointing_func(lambda *again: advance(*tree_unflatten(list(again), form)), *leaves)
