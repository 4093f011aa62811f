"""Dropout as one Triton kernel. Only `kernel` of dropout.py imports this, on first use: Triton may be missing."""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from .dropout import floor_of, offset_of

BLOCK = 1024  # entries of one program


@triton.jit
def _mix(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit(do_not_specialize=["offset", "floor"])  # else each salt would be compiled
def _multiply(x, y, seed, offset, floor, scale, n, block: tl.constexpr):
    """y = x * (`scale` where `keep` is True, else 0), rounded as in PyTorch: the weight first, then the product."""
    start = tl.program_id(0).to(tl.int64) * block
    lane = tl.arange(0, block)
    inside = lane < n - start
    index = start.to(tl.uint32) + lane.to(tl.uint32)
    key = _mix(tl.load(seed).to(tl.uint32) + offset.to(tl.uint32))
    bits = _mix(_mix(index + key) ^ _mix(key ^ 0x5BD1E995))
    weight = tl.where(bits.to(tl.int32) >= floor, scale, 0.0).to(x.dtype.element_ty)
    product = tl.load(x + start + lane, inside).to(tl.float32) * weight.to(tl.float32)
    tl.store(y + start + lane, product.to(y.dtype.element_ty), inside)


def multiply(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
    """`formula`, bit for bit, as a contiguous tensor. The seed is read on the device, so a captured graph can be
    replayed with another one."""
    x = x.contiguous()
    y, n = torch.empty_like(x), x.numel()
    launch = _multiply[(triton.cdiv(n, BLOCK),)]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(x):  # kernels start on the current device, not on that of their tensors
        launch(x, y, seed, offset_of(salt), floor_of(p), 1 / (1 - p), n, BLOCK, sanitize_overflow=False)  # pyright: ignore
    return y
