"""Random numbers by hashing counters, as Triton kernels: dropout and Gumbel noise. Only `FastKernel` imports this, on
first use: Triton may be missing.

Integers are unsigned, so that shifts bring zeros from the left and products wrap around.
"""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from . import gumbel
from .dropout import floor_of, offset_of

BLOCK = 1024  # entries, or tokens, of one program
STEP, TOKEN, FIRST, SECOND = (
    tl.constexpr(number % 2**64) for number in (gumbel.STEP, gumbel.TOKEN, gumbel.FIRST, gumbel.SECOND)
)
REST, SPACING = tl.constexpr(64 - gumbel.BITS), tl.constexpr(2.0**-gumbel.BITS)


@triton.jit
def _mix32(x):
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
    key = _mix32(tl.load(seed).to(tl.uint32) + offset.to(tl.uint32))
    bits = _mix32(_mix32(index + key) ^ _mix32(key ^ 0x5BD1E995))
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


@triton.jit
def _mix64(x):
    x = (x ^ (x >> 30)) * FIRST
    x = (x ^ (x >> 27)) * SECOND
    return x ^ (x >> 31)


@triton.jit(do_not_specialize=["step"])  # else steps 0, 1 and 16 would each be compiled
def _add(scores, keys, sums, step, tokens, stride, temperature: tl.constexpr, block: tl.constexpr):
    """sums = scores / temperature - log(-log(uniform)), in float64."""
    row = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < tokens
    key = _mix64(tl.load(keys + row).to(tl.uint64) + step.to(tl.uint64) * STEP)
    bits = _mix64(key + token.to(tl.uint64) * TOKEN)
    uniform = ((bits >> REST).to(tl.float64) + 0.5) * SPACING
    score = tl.load(scores + row * stride + token, inside, other=0.0).to(tl.float64) / temperature
    tl.store(sums + row * tokens + token, score - tl.log(-tl.log(uniform)), inside)


def add(scores: Tensor, keys: Tensor, step: int, temperature: float) -> Tensor:
    """`formula`, as a contiguous tensor."""
    scores = scores if scores.stride(1) == 1 else scores.contiguous()
    rows, tokens = scores.shape
    sums = torch.empty(scores.shape, device=scores.device, dtype=torch.float64)
    launch = _add[(rows, triton.cdiv(tokens, BLOCK))]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(scores):  # kernels start on the current device, not on that of their tensors
        launch(scores, keys.contiguous(), sums, step, tokens, scores.stride(0), float(temperature), BLOCK)
    return sums
