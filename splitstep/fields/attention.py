"""The non-local interaction between particles, A(x) = W_o softmax(q k^T / sqrt(e)) v; C: with the encoder's."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..kernels.dropout import dropout
from ..kernels.rotary import heads_of, split_rotary
from ..letters import AttentionOptions
from ..shape import check_heads
from .context import EMPTY, Context, FieldSpec, Record
from .pointwise import norm

ALIGNED = 8  # numbers in a row of a mask: fused kernels copy one whose rows begin elsewhere


def exact_attention() -> AbstractContextManager[None]:
    """Where Jacobian products or second derivatives are needed: fused kernels have none, the math backend has."""
    return sdpa_kernel(SDPBackend.MATH)  # pyright: ignore[reportReturnType]


@contextmanager
def unplanned_attention() -> Iterator[None]:
    """Where keys grow from call to call: cuDNN, which PyTorch prefers on some cards, makes a plan for every new length,
    and decoding took 50 ms a step on an H200 instead of 10."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def running_type(x: Tensor) -> torch.dtype:
    """The type of products with x here and now: its own, unless autocast has another."""
    kind = x.device.type
    cast = x.dtype != torch.float64 and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if cast else x.dtype


def barrier(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores where True lets a query look: 0 there, -inf elsewhere, in the type of the queries.

    The fused kernel would make it anew, in three kernels, of the same boolean mask in every layer. A query that may
    look nowhere, such as one of a row of padding, looks everywhere: a softmax over nothing is not a number.
    """
    width = mask.shape[-1]
    if torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling():  # an export, for any width
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(
            ~mask & mask.any(-1, keepdim=True), -inf
        )
    room = torch.zeros(*mask.shape[:-1], width + -width % ALIGNED, dtype=dtype, device=mask.device)[..., :width]
    return room.masked_fill_(~mask & mask.any(-1, keepdim=True), -inf)


def as_barrier(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """The mask of a context, as it is added to the scores of these queries."""
    return barrier(mask, q.dtype) if mask is not None and mask.dtype is torch.bool else mask


class QueriesKeysValues(nn.Linear):
    """Queries, keys and values by one product; `sizes` are their widths, `start` the first bias of queries and keys."""

    def __init__(self, width: int, sizes: tuple[int, int, int], bias: bool, start: float = 0.0) -> None:
        super().__init__(width, sum(sizes), bias)
        self.sizes, self.start = sizes, start


class Pairing(NamedTuple):
    """Who looks at whom: queries [B, heads, T, e], keys and values [B, heads or fewer, S, e], and the mask."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool

    @property
    def shared(self) -> int:
        """How many queries share a key."""
        return self.q.shape[1] // self.k.shape[1]

    def weights(self) -> Tensor:
        """softmax(q k^T / sqrt(e)) written out, [B, heads, T, S]."""
        q, k, mask = self.q, self.k, self.mask
        if self.shared > 1:
            k = k.repeat_interleave(self.shared, 1)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if self.causal:
            mask = barrier(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), scores.dtype)
        if mask is not None:
            scores = scores + mask
        wide = torch.promote_types(scores.dtype, torch.float32)
        return scores.softmax(-1, dtype=wide).to(q.dtype)


@runtime_checkable
class Attends(Protocol):
    """A field that says whom each token looks at."""

    def __call__(self, t: Any, x: Tensor, context: Any) -> Tensor:
        """dx/dt."""
        ...

    def weights(self, t: Any, x: Tensor, context: Any) -> Tensor | None:
        """The attention weights [B, heads, T, S] of an evaluation; None if this layer has none."""


class Attention(nn.Module):
    """W_o softmax(q k^T / sqrt(e)) v; what q, k and v are made of is what the kinds of attention differ in."""

    looks_at: ClassVar[str]  # "own" or "cross": whose keys
    out: nn.Linear

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.size = check_heads(spec.width, spec.heads, spec.kv_heads, spec.head_size)
        self.norm, self.output_norm = spec.norm(), spec.output_norm()
        self.p, self.p_softmax, self.once, self.salt = spec.dropout, spec.attention_dropout, spec.once, spec.salt

    def pairing(self, x: Tensor, context: Context) -> Pairing:
        """The queries of x, with the keys and values that they meet."""
        raise NotImplementedError

    def mix(self, pair: Pairing, seed: Tensor | None, record: Record | None = None) -> Tensor:
        """softmax(q k^T / sqrt(e)) v by the fused kernel, or written out if its dropout mask must be a pure function or
        if somebody wants to see the weights.

        Fused dropout draws from the device's own generator, which only a field that is evaluated once a step may do.
        """
        q, k, v, mask, causal = pair
        p = 0.0 if seed is None else self.p_softmax
        if record is None and (p == 0.0 or (self.once and q.is_cuda)):
            return functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal, enable_gqa=pair.shared > 1
            )
        v = v if pair.shared == 1 else v.repeat_interleave(pair.shared, 1)
        weights = pair.weights()
        if record is not None:
            record(self.looks_at, weights)
        return dropout(weights, p, seed, 4 * self.salt) @ v

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        c = EMPTY if context is None else context
        y = self.mix(self.pairing(x, c), c.seed, c.record)
        y = self.output_norm(self.out(y.transpose(1, 2).flatten(2)))
        return dropout(y, self.p, c.seed, 4 * self.salt + 1)

    def weights(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        """Whom each query of x looks at, and how much: [B, heads, T, S], before any dropout.

        The arguments are those of an evaluation, such as an `Event` holds. Keys of earlier calls are in a cache and not
        in x, so the pass must be a whole one.
        """
        c = context if isinstance(context, Context) else EMPTY
        if c.cache is not None and (known := c.cache.get_seq_length()) != x.shape[1]:
            raise ValueError(
                f"x holds {x.shape[1]} tokens, the cache {known}: attention weights are those of a whole pass; run the "
                "model with use_cache=False."
            )
        return self.pairing(x, c._replace(cache=None, cross_cache=None)).weights()


@final
class SelfAttention(Attention):
    """A(t, x) = W_o softmax(q k^T / sqrt(e)) v with q, k, v from norm(x); grouped where kv_heads < heads."""

    looks_at = "own"

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        queries, keys = spec.heads * self.size, (spec.kv_heads or spec.heads) * self.size
        options = spec.options or AttentionOptions()
        self.sizes = (queries, keys, keys)
        self.qkv = QueriesKeysValues(spec.width, self.sizes, spec.bias, options.bias_start)
        self.out = nn.Linear(queries, spec.width, spec.bias)
        self.has_norms = options.qk_norm != "none"
        self.q_norm: Any = norm(options.qk_norm, self.size)
        self.k_norm: Any = norm(options.qk_norm, self.size)

    def normed(self, qkv: Tensor) -> Tensor:
        """Queries, keys and values, with the norms of each head's queries and keys, worked out in the type of the
        norms' weights."""
        q, k, v = qkv.split(self.sizes, -1)
        heads = ((one, y.unflatten(-1, (-1, self.size))) for one, y in ((self.q_norm, q), (self.k_norm, k)))
        q, k = (one(y.to(one.weight.dtype)).to(v.dtype).flatten(-2) for one, y in heads)
        return torch.cat((q, k, v), -1)

    def pairing(self, x: Tensor, context: Context) -> Pairing:
        qkv = self.qkv(self.norm(x))
        if self.has_norms:
            qkv = self.normed(qkv)
        if context.rotary is None:
            q, k, v = (heads_of(y, self.size) for y in qkv.split(self.sizes, -1))
        else:
            queries, keys, _ = (n // self.size for n in self.sizes)
            q, k, v = split_rotary(qkv, context.rotary, queries, keys)
        if context.cache is not None:
            k, v = context.cache.update(k, v, context.slot)
        return Pairing(q, k, v, as_barrier(context.mask, q), context.causal and context.mask is None)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens; causal or not, a query meets every key."""
        linear = self.qkv.weight.numel() + self.out.weight.numel()
        return 2 * length * linear + 4 * length * length * self.out.in_features


@final
class CrossAttention(Attention):
    """C(t, x) = W_o softmax(q k^T / sqrt(e)) v with q from norm(x) and k, v from the encoder's states."""

    looks_at = "cross"

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__(spec)
        queries = spec.heads * self.size  # and as many keys: none are shared
        self.q = nn.Linear(spec.width, queries, spec.bias)
        self.kv = nn.Linear(spec.width, 2 * queries, spec.bias)
        self.out = nn.Linear(queries, spec.width, spec.bias)

    def pairing(self, x: Tensor, context: Context) -> Pairing:
        q = heads_of(self.q(self.norm(x)), self.size)
        return Pairing(q, *self.keys_and_values(context), as_barrier(context.memory_mask, q), False)

    def keys_and_values(self, context: Context) -> tuple[Tensor, Tensor]:
        assert context.memory is not None
        cache, slot = context.cross_cache, context.cross_slot
        if cache is not None and (known := cache.known(slot)) is not None:
            return known
        k, v = (heads_of(y, self.size) for y in self.kv(context.memory).chunk(2, -1))
        return (k, v) if cache is None else cache.update(k, v, slot)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens, with `memory` encoder states to project."""
        tokens = length * (self.q.weight.numel() + self.out.weight.numel()) + memory * self.kv.weight.numel()
        return 2 * tokens + 4 * length * memory * self.out.in_features
