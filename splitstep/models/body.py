"""From tokens or patches to states: embedding, stack, final norm. No heads, no losses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from math import log
from typing import Any

import torch
from torch import Tensor, nn

from ..fields import Context, FieldSpec, Projection, barrier, draw_seed, dropout, norm, rotary
from ..integrate import At, Observe, Site
from ..letters import LETTERS
from ..scheme import Scheme
from ..stack import Stack
from .config import SplitstepConfig, TextConfig, feed_forwards

EMBEDDING_SALT = 3  # places 4 * salt + {0, 1} belong to fields; this one to none


def norm_of(config: SplitstepConfig, used: bool) -> nn.Module:
    """A norm as the config describes it, or none."""
    return norm(config.norm if used else "none", config.width, config.norm_eps, config.norm_affine)


def ffn_widths(config: SplitstepConfig) -> Iterator[int]:
    """The inner width of each feed-forward field, layer by layer, stack after stack."""
    yield from config.ffn if isinstance(config.ffn, list) else (config.ffn for _ in count())


def caching(names: Iterable[str], cache: str) -> list[str]:
    """Those of the fields that keep keys and values in this cache."""
    return [name for name in names if name[0] in LETTERS and LETTERS[name[0]].cache == cache]


def build_stack(
    config: SplitstepConfig, scheme: Scheme, layers: int, widths: Iterator[int], salts: Iterator[int]
) -> Stack:
    """The stack of one scheme; its letters make the fields."""
    for _, part in scheme.substeps:
        if max(len(caching(part.fields, cache)) for cache in ("self", "cross")) > 1:
            raise ValueError(
                f"The part {'+'.join(part.fields)} of {str(scheme)!r} sums several attentions, which would share one "
                "cache slot: use more heads, or parts of their own."
            )
    ffn = [{name: next(widths) for name in feed_forwards(scheme)} for _ in range(layers)]

    def make(name: str, layer: int) -> nn.Module:
        salt = next(salts)
        if name in scheme.projections:
            return Projection(norm_of(config, True))
        many = config.activation if isinstance(config.activation, dict) else {name: config.activation}
        spec = FieldSpec(
            width=config.width, norm=partial(norm_of, config, not scheme.projections), name=name, layer=layer,
            salt=salt, once=scheme.count(name) == 1 and not scheme.doubled, heads=config.heads,
            kv_heads=config.kv_heads, head_size=config.head_size, ffn=ffn[layer].get(name), activation=many.get(name),
            bias=config.bias, dropout=config.dropout, attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
        )  # fmt: skip
        return LETTERS[name[0]].make(spec)

    return Stack(scheme, layers, make, float(config.step))


def places(scheme: Scheme, cache: str) -> dict[tuple[int, int, int], int]:
    """(part, stage, branch) of one step's evaluations that keep keys and values in this cache, numbered."""
    found = [
        (part, stage, branch)
        for branch, (_, program) in enumerate(scheme.plan)
        for part, move in enumerate(program)
        if caching(move.fields, cache)
        for stage in range(len(move.stages))
    ]
    return {place: number for number, place in enumerate(found)}


def slots(scheme: Scheme) -> At:
    """Gives each evaluation that keeps keys and values a slot of its own; slots are dense over the network."""
    own, cross = places(scheme, "self"), places(scheme, "cross")

    def slot(numbers: Mapping[tuple[int, int, int], int], site: Site) -> int | None:
        place = numbers.get(site[1:])
        return None if place is None else site.step * len(numbers) + place

    def at(context: Context, site: Site) -> Context:
        return context._replace(slot=slot(own, site), cross_slot=slot(cross, site))

    return at


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sinusoidal positions [.., T, width]: sines in the first half, cosines in the second."""
    half = width // 2
    rates = torch.exp(-log(10000.0) / max(half - 1, 1) * torch.arange(half, device=positions.device))
    angles = positions[..., None].float() * rates
    out = torch.cat((angles.sin(), angles.cos()), -1)
    return nn.functional.pad(out, (0, 1)) if width % 2 else out


def waves(config: TextConfig) -> Tensor:
    """The sinusoids of all positions up to `max_positions`, a row each: looking them up is one kernel, not ten."""
    return sinusoids(torch.arange(config.max_positions), config.width)


class Embedding(nn.Module):
    """Tokens and their positions as states: scale * E[token] + position, normalised where the config says so."""

    waves: Tensor | None

    def __init__(self, config: TextConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.width, padding_idx=config.pad_token_id)
        self.places = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        table = waves(config) if config.positions == "sinusoidal" else None
        self.register_buffer("waves", table, persistent=False)
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
        """The states of tokens and what a stack needs to read them: after `past` others, or None of them in order."""
        length, end = tokens.shape[1], tokens.shape[1] + (past or 0)
        self.config.check_length(end)
        known = positions is None and end <= self.config.max_positions
        if positions is None:
            positions = positions_of(mask, length, past or 0, tokens.device)
        x = self.tokens(tokens)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        if self.places is not None:
            x = x + self.places(positions)
        elif self.waves is not None:
            x = x + (self.waves[positions] if known else sinusoids(positions, self.config.width)).to(x.dtype)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens) if types is None else types)
        ahead = self.barrier(mask) if past is None else causal_mask(mask, length, past, self.tokens.weight)
        causal = past is not None and ahead is None and length > 1
        context = Context(mask=ahead, causal=causal, rotary=turn(self.config, positions), seed=seed)
        return dropout(self.norm(x), self.config.dropout, seed, salt), context

    def barrier(self, mask: Tensor | None) -> Tensor | None:
        """The barrier to padding keys, the same for every query, [B, 1, 1, S], in the type of the vectors of tokens."""
        return None if mask is None else barrier(mask.bool()[:, None, None, :], self.tokens.weight.dtype)


def turn(config: SplitstepConfig, positions: Tensor) -> tuple[Tensor, Tensor] | None:
    """The rotary angles of these positions, where the config asks for them."""
    return rotary(positions, config.head_width, config.rotary_base) if config.positions == "rotary" else None


def positions_of(mask: Tensor | None, length: int, past: int, device: torch.device) -> Tensor:
    """Positions [B or 1, T] of the newest tokens; padding on the left does not count."""
    if mask is None:
        return torch.arange(past, past + length, device=device)[None]
    return (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]


def causal_mask(mask: Tensor | None, length: int, past: int, like: Tensor) -> Tensor | None:
    """The barrier to the future and to padding, [B, 1, T, past + T], in the type of `like` and on its device; None
    where a plain causal kernel says it all."""
    if mask is None and (past == 0 or length == 1):
        return None
    order = torch.ones(length, past + length, dtype=torch.bool, device=like.device).tril(past)
    if mask is None:
        return barrier(order[None, None], like.dtype)
    allowed = order[None, None] & mask.to(like.device).bool()[:, None, None, :]
    # a padding query sees everything rather than nothing: no NaN
    return barrier(allowed | ~allowed.any(-1, keepdim=True), like.dtype)


def seed_for(module: nn.Module, config: SplitstepConfig, seed: Tensor | None, device: torch.device) -> Tensor | None:
    """The dropout seed of this pass: None outside training or without dropout."""
    if not module.training or not (config.dropout or config.attention_dropout or config.activation_dropout):
        return None
    return (draw_seed(device) if seed is None else seed).to(torch.int32)  # once, not in every dropout


class Watch:
    """An observer that keeps the state at the start of every step, and passes events on."""

    def __init__(self, then: Observe | None) -> None:
        self.states: list[Tensor] = []
        self.then = then

    def __call__(self, event: Any) -> None:
        if event.site.part == 0 and event.site.branch == 0:
            self.states.append(event.x)
        if self.then is not None:
            self.then(event)


def states_of(watch: Watch | None, last: Tensor) -> tuple[Tensor, ...] | None:
    """The states at the start of every step and the normalised last one, as Hugging Face counts hidden states."""
    return None if watch is None else (*watch.states, last)


class Body(nn.Module):
    """Embedded states through one stack and its final norm."""

    def __init__(
        self, config: SplitstepConfig, scheme: Scheme, layers: int, widths: Iterator[int], salts: Iterator[int]
    ) -> None:
        super().__init__()
        self.stack = build_stack(config, scheme, layers, widths, salts)
        self.norm = norm_of(config, not scheme.projections)

    def forward(self, x: Tensor, context: Context, observe: Observe | None = None) -> Tensor:
        cached = context.cache is not None or context.cross_cache is not None
        return self.norm(self.stack(x, context, observe, slots(self.stack.scheme) if cached else None))


def single_body(config: SplitstepConfig) -> Body:
    """The body of a model with one stack."""
    [(scheme, layers)] = config.stacks()
    return Body(config, scheme, layers, ffn_widths(config), count())
