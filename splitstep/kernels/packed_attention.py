"""Attention in packed rows, where no text looks at another: each piece by itself, instead of whole rows under a mask.

PyTorch's flash kernel takes the bounds of pieces, and its dropout draws from the device's own generator. It is called
directly: `torch.nn.attention.varlen.varlen_attn`, its public form, has no dropout.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Kernel = Literal["mask", "pieces"]
HALVES = (torch.bfloat16, torch.float16)  # what the flash kernel takes


def kernel_for_packed_rows(q: Tensor) -> Kernel:
    """What computes attention in packed rows whose pieces have known bounds: the kernel that goes piece by piece, where
    it runs, else one over whole rows under a mask."""
    return "pieces" if q.is_cuda and q.dtype in HALVES else "mask"


def bounds_of(ends: Tensor, length: int) -> Tensor:
    """Where pieces begin and end in rows that are put one after the other, [B * P + 1], from their ends in each row
    [B, P], ascending. A row with fewer than P pieces repeats its last end, `length`: these pieces are empty."""
    rows = torch.arange(len(ends), device=ends.device, dtype=torch.int32)[:, None]
    return torch.nn.functional.pad((ends.int() + rows * length).flatten(), (1, 0))


def by_pieces(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, p: float) -> Tensor:
    """softmax(q k^T / sqrt(e)) v within each piece, with dropout of the weights; all are [B, heads, T, e]."""
    length = q.shape[2]
    flat = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    y = torch.ops.aten._flash_attention_forward(*flat, bounds, bounds, length, length, p, False, False)[0]
    return y.unflatten(0, (-1, length)).transpose(1, 2)
