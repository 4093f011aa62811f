"""Dropout as a pure function of (seed, salt, position), so the order of calls does not matter.

A field has one mask per forward pass, however often a scheme evaluates it. Recomputation, observation, compilation and
graph capture cannot change the mask.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from .fusing import FUSED, FastKernel, ordinary


def _shift(x: Tensor, n: int) -> Tensor:
    return (x >> n) & ((1 << (32 - n)) - 1)  # logical, on signed 32-bit integers


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit integers whose output bits depend on all input bits (Wellons' lowbias32)."""
    x = (x ^ _shift(x, 16)) * 0x7FEB352D
    x = (x ^ _shift(x, 15)) * -0x7B935975
    return x ^ _shift(x, 16)


def offset_of(salt: int) -> int:
    return salt * 0x2545F49 % 0x7FFFFFFF


def floor_of(p: float) -> int:
    return int(p * 2**32) - 2**31  # entries with a smaller signed 32-bit integer are dropped


def keep(seed: Tensor, salt: int, shape: Sequence[int], p: float) -> Tensor:
    """A boolean mask of this shape, each entry True with probability 1 - p."""
    key = _mix(seed.to(torch.int32) + offset_of(salt))
    index = torch.arange(prod(shape), dtype=torch.int32, device=seed.device)
    bits = _mix(_mix(index + key) ^ _mix(key ^ 0x5BD1E995))
    return (bits >= floor_of(p)).view(tuple(shape))


def formula(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
    """Dropout by PyTorch's own operations, which a compiler can fuse."""
    return x * (keep(seed, salt, x.shape, p).to(x.dtype) * (1 / (1 - p)))


def check(multiply: Callable[..., Tensor], kind: str) -> None:
    """An error unless the kernel does as the formula does, bit for bit."""
    seed = torch.tensor(2**31 - 2, device=kind, dtype=torch.int32)
    x = torch.linspace(-2, 2, 50_000, device=kind)
    for sample in ((x.to(dtype), 0.3, seed, 5) for dtype in FUSED):
        torch.testing.assert_close(multiply(*sample), formula(*sample), rtol=0, atol=0)


# PyTorch's own operations are fifty kernels for one mask, which would be most of what a small captured model runs.
kernel = FastKernel("dropout", "triton_kernels:multiply", check)


def fusible(x: Tensor, seed: Tensor) -> bool:
    """Whether a kernel may run here and now."""
    return ordinary(x, seed) and kernel(x.device.type) is not None  # last: its first call needs all the others


class Fused(torch.autograd.Function):
    """`dropout` as one kernel. It is linear and its own transpose, so tangents and gradients pass through it too."""

    @staticmethod
    def forward(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        multiply = kernel(x.device.type)
        assert multiply is not None
        return multiply(x, p, seed, salt)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.p, seed, ctx.salt = inputs
        ctx.save_for_backward(seed)
        ctx.save_for_forward(seed)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        [seed] = ctx.saved_tensors
        return dropout(g, ctx.p, seed, ctx.salt), None, None, None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, *others: None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        [seed] = ctx.saved_tensors
        return dropout(dx, ctx.p, seed, ctx.salt)

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> tuple[Tensor, int]:  # pyright: ignore
        return torch.vmap(dropout, in_dims)(*inputs), 0


def dropout(x: Tensor, p: float, seed: Tensor | None, salt: int) -> Tensor:
    """x with entries zeroed with probability p, the others divided by 1 - p; x itself if there is no seed."""
    if p == 0 or seed is None:
        return x
    return Fused.apply(x, p, seed, salt) if fusible(x, seed) else formula(x, p, seed, salt)  # pyright: ignore


def draw_seed(device: torch.device) -> Tensor:
    """A fresh seed from PyTorch's own generator, for callers that have none."""
    return torch.randint(2**31 - 1, (), device=device, dtype=torch.int64)
