"""The non-local interaction between particles, A(x) = W_o softmax(q k^T / sqrt(e)) v; C: with the encoder's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..kernels.dropout import dropout
from .context import Context

EMPTY = Context()
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


def rotary(positions: Tensor, size: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotation angles, [B or 1, 1, T, size], for integer positions [B or 1, T]."""
    rates = base ** (-torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size)
    angles = positions[:, None, :, None].float() * torch.cat((rates, rates))
    return angles.cos(), angles.sin()


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """x with the pairs (i, i + size/2) of each head turned by the angles."""
    cos, sin = angles
    u, v = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat((-v, u), -1) * sin.to(x.dtype)


def barrier(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores where True lets a query look: 0 there, -inf elsewhere, in the type of the queries.

    The fused kernel would make it anew, in three kernels, of the same boolean mask in every layer.
    """
    kind = mask.device.type
    if dtype != torch.float64 and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    width = mask.shape[-1]
    room = torch.zeros(*mask.shape[:-1], width + -width % ALIGNED, dtype=dtype, device=mask.device)[..., :width]
    return room.masked_fill_(~mask, -inf)


class Softmax(nn.Module):
    """softmax(q k^T / sqrt(e)) v by the fused kernel, or written out where its dropout mask must be a pure function.

    Fused dropout draws from the device's own generator, which only a field that is evaluated once a step may do.
    """

    def __init__(self, p: float, fused_dropout: bool, salt: int) -> None:
        super().__init__()
        self.p, self.fused_dropout, self.salt = p, fused_dropout, salt

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, seed: Tensor | None
    ) -> Tensor:
        p = 0.0 if seed is None else self.p
        grouped = q.shape[1] != k.shape[1]
        if p == 0.0 or (self.fused_dropout and q.is_cuda):
            return functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal, enable_gqa=grouped
            )
        if grouped:
            k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        if mask is not None:
            scores = scores.masked_fill(~mask, -inf) if mask.dtype is torch.bool else scores + mask
        wide = torch.promote_types(scores.dtype, torch.float32)
        weights = dropout(scores.softmax(-1, dtype=wide).to(q.dtype), p, seed, self.salt)
        return weights @ v


def heads_of(x: Tensor, size: int) -> Tensor:
    """[B, T, heads * size] -> [B, heads, T, size]."""
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def check_heads(width: int, heads: int, kv_heads: int) -> int:
    """The width of one head."""
    if width % heads:
        near = [h for h in range(1, width + 1) if width % h == 0]
        best = min(near, key=lambda h: abs(h - heads))
        raise ValueError(
            f"Width {width} is not divisible by {heads} heads: use heads={best} or width={width // heads * heads}."
        )
    if heads % kv_heads:
        raise ValueError(f"{heads} heads cannot share {kv_heads} key-value heads: kv_heads must divide heads.")
    return width // heads


class QueriesKeysValues(nn.Linear):
    """Queries, keys and values by one product; `sizes` are their widths."""

    def __init__(self, width: int, sizes: tuple[int, int, int], bias: bool) -> None:
        super().__init__(width, sum(sizes), bias)
        self.sizes = sizes


class SelfAttention(nn.Module):
    """A(t, x) = W_o softmax(q k^T / sqrt(e)) v with q, k, v from norm(x); grouped where kv_heads < heads."""

    def __init__(
        self,
        norm: nn.Module,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        fused_dropout: bool = True,
        salt: int = 0,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        self.size = check_heads(width, heads, kv_heads)
        self.norm = norm
        self.qkv = QueriesKeysValues(width, (width, kv_heads * self.size, kv_heads * self.size), bias)
        self.softmax = Softmax(attention_dropout, fused_dropout, 4 * salt)
        self.out = nn.Linear(width, width, bias)
        self.p, self.salt = dropout, salt

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        c = EMPTY if context is None else context
        q, k, v = (heads_of(y, self.size) for y in self.qkv(self.norm(x)).split(self.qkv.sizes, -1))
        if c.rotary is not None:
            q, k = rotate(q, c.rotary), rotate(k, c.rotary)
        if c.cache is not None:
            k, v = c.cache.update(k, v, c.slot)
        y = self.softmax(q, k, v, c.mask, c.causal and c.mask is None, c.seed)
        return dropout(self.out(y.transpose(1, 2).flatten(2)), self.p, c.seed, 4 * self.salt + 1)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens; causal or not, a query meets every key."""
        linear = self.qkv.in_features * self.qkv.out_features + self.out.in_features * self.out.out_features
        return 2 * length * linear + 4 * length * length * self.qkv.sizes[0]


class CrossAttention(nn.Module):
    """C(t, x) = W_o softmax(q k^T / sqrt(e)) v with q from norm(x) and k, v from the encoder's states."""

    def __init__(
        self,
        norm: nn.Module,
        width: int,
        heads: int,
        bias: bool = True,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        fused_dropout: bool = True,
        salt: int = 0,
    ) -> None:
        super().__init__()
        self.size = check_heads(width, heads, heads)
        self.norm = norm
        self.q = nn.Linear(width, width, bias)
        self.kv = nn.Linear(width, 2 * width, bias)
        self.softmax = Softmax(attention_dropout, fused_dropout, 4 * salt)
        self.out = nn.Linear(width, width, bias)
        self.p, self.salt = dropout, salt

    def forward(self, t: Any, x: Tensor, context: Context) -> Tensor:
        assert context.memory is not None
        q = heads_of(self.q(self.norm(x)), self.size)
        k, v = self.keys_and_values(context)
        y = self.softmax(q, k, v, context.memory_mask, False, context.seed)
        return dropout(self.out(y.transpose(1, 2).flatten(2)), self.p, context.seed, 4 * self.salt + 1)

    def keys_and_values(self, context: Context) -> tuple[Tensor, Tensor]:
        assert context.memory is not None
        cache, slot = context.cross_cache, context.cross_slot
        if cache is not None and slot is not None and slot < len(cache.layers) and cache.get_seq_length(slot) > 0:
            layer = cache.layers[slot]
            return layer.keys, layer.values
        k, v = (heads_of(y, self.size) for y in self.kv(context.memory).chunk(2, -1))
        return (k, v) if cache is None else cache.update(k, v, slot)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens, with `memory` encoder states to project."""
        width = self.q.in_features
        return 4 * width * width * (length + memory) + 4 * length * memory * width
