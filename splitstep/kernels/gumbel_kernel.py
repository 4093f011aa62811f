"""Gumbel noise as one Triton kernel. Only `kernel` of gumbel.py imports this, on first use: Triton may be missing.

All integers are unsigned, so that shifts bring zeros from the left and products wrap around.
"""

from __future__ import annotations

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from . import gumbel

BLOCK = 1024  # tokens of one program
STEP, TOKEN, FIRST, SECOND = (
    tl.constexpr(number % 2**64) for number in (gumbel.STEP, gumbel.TOKEN, gumbel.FIRST, gumbel.SECOND)
)
REST, SPACING = tl.constexpr(64 - gumbel.BITS), tl.constexpr(2.0**-gumbel.BITS)


@triton.jit
def _mix(x):
    x = (x ^ (x >> 30)) * FIRST
    x = (x ^ (x >> 27)) * SECOND
    return x ^ (x >> 31)


@triton.jit(do_not_specialize=["step"])  # else steps 0, 1 and 16 would each be compiled
def _add(scores, keys, sums, step, tokens, stride, temperature: tl.constexpr, block: tl.constexpr):
    """sums = scores / temperature - log(-log(uniform)), in float64."""
    row = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < tokens
    key = _mix(tl.load(keys + row).to(tl.uint64) + step.to(tl.uint64) * STEP)
    bits = _mix(key + token.to(tl.uint64) * TOKEN)
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
