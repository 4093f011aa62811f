"""Where keys and values are kept during generation: a slot for each evaluation of attention, not for each layer."""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, EncoderDecoderCache

from ..letters import LETTERS
from ..scheme import Scheme
from ..stack import numbered
from ..support.words import counted

CACHES = ("self", "cross")


def caching(scheme: Scheme, cache: str) -> str:
    """The letters of the scheme that keep keys and values in this cache."""
    return "".join(sorted({name[0] for name in scheme.fields if LETTERS[name[0]].cache == cache}))


class Slots(NamedTuple):
    """How many slots the steps of a scheme need in the cache of the sequence itself, and in that of the source. The
    sequence has at least one, which counts tokens if no field keeps any."""

    scheme: Scheme
    own: int
    cross: int


def slots_of(scheme: Scheme, steps: int) -> Slots:
    """The slots that these steps of the scheme need."""
    own, cross = (steps * len(numbered(scheme, caching(scheme, cache))) for cache in CACHES)
    return Slots(scheme, max(own, 1), cross)


def count_tokens(cache: Any, x: Tensor) -> None:
    """Let a cache know how many tokens it has met, where no field keeps keys and values of them."""
    nothing = x.new_zeros(len(x), 1, x.shape[1], 1)  # a key without an element counts as no token
    cache.update(nothing, nothing, 0)


@final
class SourceCache(DynamicCache):
    """Keys and values of the source. All beams of a source share them, so reordering the beams changes nothing here;
    transformers would copy everything in every step."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Leave everything as it is."""


@final
class SourceKeys:
    """What cross-attention keeps: the keys and values of the source, worked out once for each slot."""

    def __init__(self, cache: EncoderDecoderCache, length: int) -> None:
        self.cache, self.length = cache, length

    def known(self, slot: int) -> tuple[Tensor, Tensor] | None:
        """The keys and values of this slot, if an earlier call has worked them out."""
        if not self.cache.is_updated.get(slot):
            return None
        layer: Any = self.cache.cross_attention_cache.layers[slot]
        return self.cut(layer.keys, layer.values)

    def update(self, k: Tensor, v: Tensor, slot: int) -> tuple[Tensor, Tensor]:
        self.cache.is_updated[slot] = True
        return self.cut(*self.cache.cross_attention_cache.update(k, v, slot))

    def cut(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Without the unused room of a static cache: nobody may look there."""
        return k[:, :, : self.length], v[:, :, : self.length]


class Past(NamedTuple):
    """How many tokens a cache holds, and how many keys attention will meet if the cache has a fixed size."""

    tokens: int | Tensor = 0
    room: int | None = None

    @property
    def known(self) -> int | None:
        """The number of tokens, if it can be read without waiting for a device and without leaving a compiled graph."""
        if isinstance(self.tokens, int):
            return self.tokens
        waits = torch.compiler.is_compiling() or self.tokens.device.type != "cpu"
        return None if waits else int(self.tokens)


def past_of(cache: Any, slots: Slots) -> Past:
    """What the cache holds; an error if it does not have these slots."""
    if cache is None:
        return Past()
    own = cache
    if isinstance(cache, EncoderDecoderCache):
        own = cache.self_attention_cache
        refuse_misfit(cache.cross_attention_cache, slots, slots.cross)
    refuse_misfit(own, slots, slots.own)
    if not own.layers:
        return Past()
    room = own.get_max_length(0)
    return Past(own.get_seq_length(), room if room >= 0 else None)


def refuse_misfit(cache: Any, slots: Slots, needed: int) -> None:
    """An error if this is no cache, or if it has slots for another network, or slots that forget."""
    if not isinstance(cache, Cache):
        raise ValueError(
            f"past_key_values is a {type(cache).__name__}: pass a Cache of transformers, such as "
            "DynamicCache(config=model.config)."
        )
    found = len(cache.layers)
    grows = found == 0 and cache.layer_class_to_replicate is not None
    if not grows and found not in (needed, max(slots.own, slots.cross)):  # transformers gives both caches one size
        raise ValueError(
            f"past_key_values has {counted(found, 'slot')}; the scheme {str(slots.scheme)!r} of this model needs "
            f"{needed}, one for each evaluation of attention. Make it with DynamicCache(config=model.config) or "
            "StaticCache(config=model.config, max_cache_len=...)."
        )
    if any(cache.is_sliding):
        raise ValueError("past_key_values has sliding windows, which forget tokens that this model looks at.")


def check_room(past: Past, length: int, mask: Tensor | None) -> None:
    """Refuse more tokens than a static cache holds, and a mask of another number of tokens."""
    if past.known is None:
        return
    end = past.known + length
    if past.room is not None and end > past.room:
        raise ValueError(f"{end} tokens do not fit a static cache of max_cache_len={past.room}: make a larger one.")
    if mask is not None and mask.ndim == 2 and mask.shape[1] != end:
        raise ValueError(
            f"attention_mask covers {counted(mask.shape[1], 'token')}; it must cover {end}: {past.known} in the "
            f"cache and {length} new."
        )
