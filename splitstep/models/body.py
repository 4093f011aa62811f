"""From tokens or patches to states: embedding, stack, final norm. No heads, no losses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count, product
from math import log

import torch
from torch import Tensor, nn

from ..fields import Context, FieldSpec, Projection, barrier, draw_seed, dropout, norm, rotary
from ..fields.attention import running_type
from ..integrate import At, Event, Observe, Site
from ..letters import LETTERS
from ..scheme import Scheme
from ..stack import Stack
from .config import SplitstepConfig, TextConfig, feed_forwards

CACHES = ("self", "cross")
EMBEDDING_SALT = 3  # fields use 4 * salt and 4 * salt + 1, so 3 is free


def norm_of(config: SplitstepConfig, used: bool) -> nn.Module:
    """A norm as the config describes it, or none."""
    return norm(config.norm if used else "none", config.width, config.norm_eps, config.norm_affine)


def caching(scheme: Scheme, cache: str) -> str:
    """The letters of the scheme that keep keys and values in this cache."""
    return "".join(sorted({name[0] for name in scheme.fields if LETTERS[name[0]].cache == cache}))


def build_stack(config: SplitstepConfig, number: int, salts: Iterator[int]) -> Stack:
    """One of the config's stacks; the letters of its scheme make the fields."""
    (scheme, layers), widths = config.stacks()[number], config.ffn_rows()[number]
    for (_, part), cache in product(scheme.substeps, CACHES):
        if sum(name[0] in caching(scheme, cache) for name in part.fields) > 1:
            raise ValueError(
                f"The part {'+'.join(part.fields)} of {str(scheme)!r} sums several attentions, which would share one "
                "cache slot: use more heads, or one part for each."
            )
    ffn = [dict(zip(feed_forwards(scheme), row, strict=True)) for row in widths]

    def make(name: str, layer: int) -> nn.Module:
        salt = next(salts)
        if name in scheme.projections:
            return Projection(norm_of(config, True))
        many = config.activation if isinstance(config.activation, dict) else {name: config.activation}
        spec = FieldSpec(
            width=config.width, norm=partial(norm_of, config, not scheme.projections), name=name, layer=layer,
            salt=salt, once=config.substeps * scheme.count(name) == 1 and not scheme.doubled, heads=config.heads,
            kv_heads=config.kv_heads, head_size=config.head_size, ffn=ffn[layer].get(name), activation=many.get(name),
            bias=config.bias, dropout=config.dropout, attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
        )  # fmt: skip
        return LETTERS[name[0]].make(spec)

    return Stack(scheme, layers, make, float(config.step), config.substeps)


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


def sinusoid_table(config: TextConfig) -> Tensor:
    """The sinusoids of all positions up to `max_positions`, one row each: a look-up is one kernel instead of ten."""
    return sinusoids(torch.arange(config.max_positions), config.width)


class Embedding(nn.Module):
    """Tokens and their positions as states: scale * E[token] + position, normalised if the config says so."""

    sinusoids: Tensor | None

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.width, padding_idx=config.pad_token_id)
        self.positions = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        table = sinusoid_table(config) if config.positions == "sinusoidal" else None
        self.register_buffer("sinusoids", table, persistent=False)
        self.types = nn.Embedding(config.token_types, config.width) if config.token_types else None
        self.norm = norm_of(config, config.embedding_norm)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        seed: Tensor | None = None,
        past: int | None = None,
        salt: int = EMBEDDING_SALT,
        types: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> tuple[Tensor, Context]:
        """The states of tokens and their context: causal after `past` earlier tokens; not causal if `past` is None."""
        length, end = tokens.shape[1], tokens.shape[1] + (past or 0)
        self.config.check_length(end)
        known = positions is None and end <= self.config.max_positions
        if positions is None:
            positions = positions_of(mask, length, past or 0, tokens.device)
        x = self.tokens(tokens)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.positions is not None:
            x = x + self.positions(positions)
        elif self.sinusoids is not None:
            x = x + (self.sinusoids[positions] if known else sinusoids(positions, self.config.width)).to(x.dtype)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens) if types is None else types)
        ahead = self.barrier(mask) if past is None else causal_mask(mask, length, past, self.tokens.weight)
        causal = past is not None and ahead is None and length > 1
        angles = rotary_angles(self.config, positions, self.tokens.weight)
        context = Context(mask=ahead, causal=causal, rotary=angles, seed=seed)
        return dropout(self.norm(x), self.config.dropout, seed, salt), context

    def barrier(self, mask: Tensor | None) -> Tensor | None:
        """The barrier to padding keys, the same for every query, [B, 1, 1, S], in the type of the token vectors."""
        return None if mask is None else barrier(mask.bool()[:, None, None, :], running_type(self.tokens.weight))


def rotary_angles(config: SplitstepConfig, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """The rotary angles of these positions, if the config asks for them, in the type of products with `like`."""
    if config.positions != "rotary":
        return None
    return rotary(positions, config.head_width, config.rotary_base, running_type(like))


def positions_of(mask: Tensor | None, length: int, past: int, device: torch.device) -> Tensor:
    """Positions [B or 1, T] of the newest tokens; padding on the left does not count."""
    if mask is None:
        return torch.arange(past, past + length, device=device)[None]
    return (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]


def causal_mask(mask: Tensor | None, length: int, past: int, like: Tensor) -> Tensor | None:
    """The barrier to the future and to padding, [B, 1, T, past + T], in the type of `like` and on its device; None
    if a causal kernel needs no mask."""
    if mask is None and (past == 0 or length == 1):
        return None
    seen = torch.ones(length, past + length, dtype=torch.bool, device=like.device).tril(past)[None, None]
    if mask is not None:
        seen = seen & mask.to(like.device).bool()[:, None, None, :]
    return barrier(seen, running_type(like))


def seed_for(module: nn.Module, config: SplitstepConfig, seed: Tensor | None, device: torch.device) -> Tensor | None:
    """The dropout seed of this pass: None outside training or without dropout."""
    if not module.training or not (config.dropout or config.attention_dropout or config.activation_dropout):
        return None
    return (draw_seed(device) if seed is None else seed).to(torch.int32)  # here, not in every dropout


class Watch:
    """Keeps hidden states as Hugging Face counts them, if wanted: at the start of every layer, and the last one.

    For a doubled state it keeps the mean of the halves, as at the end of a stack.
    """

    def __init__(self, config: SplitstepConfig, inner: Observe | None, wanted: bool | None) -> None:
        self.kept: list[Tensor] | None = [] if (config.output_hidden_states if wanted is None else wanted) else None
        self.inner, self.substeps = inner, config.substeps
        self.observe: Observe | None = inner if self.kept is None else self.see

    def see(self, event: Event) -> None:
        assert self.kept is not None
        if event.site.part == 0 and event.site.branch == 0 and event.site.step % self.substeps == 0:
            self.kept.append(event.before)
        if self.inner is not None:
            self.inner(event)

    def states(self, last: Tensor) -> tuple[Tensor, ...] | None:
        return None if self.kept is None else (*self.kept, last)


class Body(nn.Module):
    """Embedded states through one stack and its final norm."""

    def __init__(self, config: SplitstepConfig, number: int = 0, salts: Iterator[int] | None = None) -> None:
        super().__init__()
        self.stack = build_stack(config, number, count() if salts is None else salts)
        self.norm = norm_of(config, not self.stack.scheme.projections)

    def forward(self, x: Tensor, context: Context, observe: Observe | None = None) -> Tensor:
        cached = context.cache is not None or context.cross_cache is not None
        return self.norm(self.stack(x, context, observe, slots(self.stack) if cached else None))
