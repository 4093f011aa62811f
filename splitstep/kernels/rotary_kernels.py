"""Rotary positions as two Triton kernels. Only `FastKernel` imports this, on first use."""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from .rotary import empty_parts, empty_rows

BLOCK = 32  # positions of one program


@triton.jit
def _turn(source, target, heads, source_head, target_head, cos, sin, near, far, near_to, far_to, inside, turned):
    """Copy some heads at a block of positions; if `turned`, rotate their pairs on the way, rounding once."""
    for head in range(heads):
        u = tl.load(source + head * source_head + near, inside, other=0.0)
        v = tl.load(source + head * source_head + far, inside, other=0.0)
        if turned:
            a, b = u.to(tl.float32), v.to(tl.float32)
            u, v = (a * cos - b * sin).to(u.dtype), (b * cos + a * sin).to(v.dtype)
        tl.store(target + head * target_head + near_to, u, inside)
        tl.store(target + head * target_head + far_to, v, inside)


@triton.jit
def _move(
    packed, q, k, v, cosines, sines, length, queries, keys, table_batch, packed_batch, packed_row,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, sign,
    half: tl.constexpr, width: tl.constexpr, block: tl.constexpr, split: tl.constexpr,
):  # fmt: skip
    """Move queries, keys or values (program 2 says which) out of the packed rows (`split`) or back into them."""
    size = 2 * half
    batch = tl.program_id(0).to(tl.int64)
    row = (tl.program_id(1) * block + tl.arange(0, block))[:, None]
    lane = tl.arange(0, width)[None, :]
    inside = (row < length) & (lane < half)
    which = tl.program_id(2)
    table = batch * table_batch + row * size + lane
    cos = tl.load(cosines + table, inside, other=0.0).to(tl.float32)
    sin = tl.load(sines + table, inside, other=0.0).to(tl.float32) * sign
    heads = tl.where(which == 0, queries, keys)
    before = tl.where(which == 0, 0, tl.where(which == 1, queries, queries + keys))
    apart = q if which == 0 else (k if which == 1 else v)
    apart += batch * tl.where(which == 0, q_batch, tl.where(which == 1, k_batch, v_batch))
    head_stride = tl.where(which == 0, q_head, tl.where(which == 1, k_head, v_head))
    at = row * tl.where(which == 0, q_row, tl.where(which == 1, k_row, v_row)) + lane
    packed += batch * packed_batch + before * size
    within = row * packed_row + lane
    if split:
        _turn(
            packed, apart, heads, size, head_stride, cos, sin, within, within + half, at, at + half, inside, which < 2
        )
    else:
        _turn(
            apart, packed, heads, head_stride, size, cos, sin, at, at + half, within, within + half, inside, which < 2
        )


def move(packed: Tensor, parts: tuple[Tensor, Tensor, Tensor], cos: Tensor, sin: Tensor, split: bool) -> None:
    """Run the kernel between packed rows [B, T, heads * size] and parts [B, heads, T, size], the last of stride 1."""
    q, k, v = parts
    cos, sin = (one.to(packed.dtype).contiguous() for one in (cos, sin))
    b, queries, length, size = q.shape
    strides = [n for one in parts for n in one.stride()[:3]]
    launch = _move[(b, triton.cdiv(length, BLOCK), 3)]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(packed):  # kernels start on the current device, not on that of their tensors
        launch(
            packed, q, k, v, cos, sin, length, queries, k.shape[1], cos.stride(0) if len(cos) > 1 else 0,
            *packed.stride()[:2], *strides, 1.0 if split else -1.0, half=size // 2,
            width=triton.next_power_of_2(size // 2), block=BLOCK, split=split, enable_fp_fusion=False,
        )  # fmt: skip


def dense(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def split(qkv: Tensor, cos: Tensor, sin: Tensor, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """`split_formula`."""
    parts = empty_parts(qkv, cos, sin, queries, keys)
    move(dense(qkv), parts, cos, sin, True)
    return parts


def join(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`join_formula`."""
    packed = empty_rows(q, k, v, cos, sin)
    move(packed, (dense(q), dense(k), dense(v)), cos, sin, False)
    return packed
