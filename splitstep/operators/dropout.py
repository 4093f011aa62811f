"""Dropout as a pure function of (seed, salt, position): nothing draws, so nothing can be drawn out of turn.

A field has one mask per forward pass however often a scheme evaluates it, and recomputation, observation, compilation
and graph capture cannot change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor


def _shift(x: Tensor, n: int) -> Tensor:
    return (x >> n) & ((1 << (32 - n)) - 1)  # logical, on signed 32-bit integers


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit integers whose output bits depend on all input bits (Wellons' lowbias32)."""
    x = (x ^ _shift(x, 16)) * 0x7FEB352D
    x = (x ^ _shift(x, 15)) * -0x7B935975
    return x ^ _shift(x, 16)


def keep(seed: Tensor, salt: int, shape: Sequence[int], p: float) -> Tensor:
    """A boolean mask of this shape, each entry True with probability 1 - p."""
    key = _mix(seed.to(torch.int32) + salt * 0x2545F49 % 0x7FFFFFFF)
    index = torch.arange(prod(shape), dtype=torch.int32, device=seed.device)
    bits = _mix(_mix(index + key) ^ _mix(key ^ 0x5BD1E995))
    return (bits >= int(p * 2**32) - 2**31).view(tuple(shape))


def dropout(x: Tensor, p: float, seed: Tensor | None, salt: int) -> Tensor:
    """x with entries zeroed with probability p, the others divided by 1 - p; x itself where there is no seed."""
    if p == 0 or seed is None:
        return x
    return x * (keep(seed, salt, x.shape, p).to(x.dtype) * (1 / (1 - p)))


def draw_seed(device: torch.device) -> Tensor:
    """A fresh seed from PyTorch's own generator, for callers that bring none."""
    return torch.randint(2**31 - 1, (), device=device, dtype=torch.int64)
