"""Dropout as a pure function of (seed, salt, position): nothing draws, so nothing can be drawn out of turn.

A field has one mask per forward pass however often a scheme evaluates it, and recomputation, observation, compilation
and graph capture cannot change it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor
from torch.cuda import jiterator


def _shift(x: Tensor, n: int) -> Tensor:
    return (x >> n) & ((1 << (32 - n)) - 1)  # logical, on signed 32-bit integers


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit integers whose output bits depend on all input bits (Wellons' lowbias32)."""
    x = (x ^ _shift(x, 16)) * 0x7FEB352D
    x = (x ^ _shift(x, 15)) * -0x7B935975
    return x ^ _shift(x, 16)


def _offset(salt: int) -> int:
    return salt * 0x2545F49 % 0x7FFFFFFF


def _floor(p: float) -> int:
    return int(p * 2**32) - 2**31  # of the signed 32-bit integers that are kept


def keep(seed: Tensor, salt: int, shape: Sequence[int], p: float) -> Tensor:
    """A boolean mask of this shape, each entry True with probability 1 - p."""
    key = _mix(seed.to(torch.int32) + _offset(salt))
    index = torch.arange(prod(shape), dtype=torch.int32, device=seed.device)
    bits = _mix(_mix(index + key) ^ _mix(key ^ 0x5BD1E995))
    return (bits >= _floor(p)).view(tuple(shape))


CODE = """
template <typename T> T weight(T index, T seed, T offset, T floor, T kept) {
  auto mix = [](unsigned int x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
  };
  unsigned int key = mix((unsigned int)seed + (unsigned int)offset);
  unsigned int bits = mix(mix((unsigned int)index + key) ^ mix(key ^ 0x5bd1e995u));
  return (int)bits >= (int)floor ? kept : (T)0;
}
"""
"""The same for one entry, in C++. It returns `kept` or 0: a kernel made of this has the type of its index, so that a
weight comes as the bits of its float32."""


@cache
def kernel() -> Callable[..., Tensor] | None:
    """`CODE` as one CUDA kernel, where it compiles and does as `keep` does; else None. The first call waits.

    PyTorch's own operations need fifty kernels for one mask, which is most of what a small captured model runs.
    """
    made = jiterator._create_jit_fn(CODE, offset=0, floor=0, kept=0)
    seed, shape = torch.tensor(2**31 - 2, device="cuda"), (1 << 16,)
    try:
        same = torch.equal(_weights(made, seed, 5, shape, 0.3), keep(seed, 5, shape, 0.3) * (1 / 0.7))
    except RuntimeError:
        return None
    return made if same else None


def _weights(made: Callable[..., Tensor], seed: Tensor, salt: int, shape: Sequence[int], p: float) -> Tensor:
    """1 / (1 - p) with probability 1 - p, else 0, float32, by one kernel."""
    index = torch.arange(prod(shape), dtype=torch.int32, device=seed.device)
    [kept] = struct.unpack("i", struct.pack("f", 1 / (1 - p)))
    bits = made(index, seed.to(torch.int32), offset=_offset(salt), floor=_floor(p), kept=kept)
    return bits.view(torch.float32).view(tuple(shape))


def weights(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
    """What dropout multiplies x by, in its shape and type."""
    # A compiler fuses the formula by itself; float64 needs 1 / (1 - p) in its own precision.
    if x.is_cuda and x.dtype != torch.float64 and not torch.compiler.is_compiling() and (made := kernel()) is not None:
        return _weights(made, seed, salt, x.shape, p).to(x.dtype)
    return keep(seed, salt, x.shape, p).to(x.dtype) * (1 / (1 - p))


def dropout(x: Tensor, p: float, seed: Tensor | None, salt: int) -> Tensor:
    """x with entries zeroed with probability p, the others divided by 1 - p; x itself where there is no seed."""
    if p == 0 or seed is None:
        return x
    return x * weights(x, p, seed, salt)


def draw_seed(device: torch.device) -> Tensor:
    """A fresh seed from PyTorch's own generator, for callers that bring none."""
    return torch.randint(2**31 - 1, (), device=device, dtype=torch.int64)
