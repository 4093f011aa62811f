"""The product of states with an output matrix, padded to a width that GPUs are fast at."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .fusing import transformed

ALIGNED = 8  # GPUs multiply half-precision matrices several times slower if their width is not a multiple of it
COLUMNS = 64  # matrices are padded to a multiple of this: 128 bytes, the unit in which memory is read
ENOUGH = 512  # from this many rows on, the faster product is worth a copy of the matrix; decoding has fewer


class Padded(torch.autograd.Function):
    """A tensor in another type with rows of zeros appended, in the one pass that the cast alone would need."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: int, dtype: torch.dtype) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.rows, ctx.dtype = len(x), x.dtype
        y = x.new_empty((rows, *x.shape[1:]), dtype=dtype)
        y.narrow(0, 0, len(x)).copy_(x)
        y.narrow(0, len(x), rows - len(x)).zero_()
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return g[: ctx.rows].to(ctx.dtype), None, None


def bare(head: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether the head is a product and nothing else: not replaced, not wrapped, without hooks."""
    hooks = (head._forward_hooks, head._forward_pre_hooks, head._backward_hooks, head._backward_pre_hooks)
    return type(head) is nn.Linear and "forward" not in vars(head) and not any(hooks)


def unaligned(head: nn.Module, x: Tensor) -> TypeGuard[nn.Linear]:
    """Whether a GPU would be slow at this product for want of a few columns. Compilers pad by themselves."""
    return (
        not torch.compiler.is_compiling()
        and x.is_cuda
        and bare(head)
        and head.weight.is_cuda
        and head.weight.shape[0] % ALIGNED != 0
        and x.shape[:-1].numel() >= ENOUGH
        and not is_traceable_wrapper_subclass(head.weight)  # a sharded or a quantised matrix
        and not transformed(head.weight, head.bias)
    )


def project(head: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """head(x) twice: as it is, and with columns of zeros appended if that is faster; the first is then a view.

    `cross_entropy` takes both, so the gradient needs no padding.
    """
    if not unaligned(head, x):
        logits = head(x)
        return logits, logits
    weight, bias, classes = head.weight, head.bias, head.weight.shape[0]
    rows = -(-classes // COLUMNS) * COLUMNS
    cast = torch.is_autocast_enabled("cuda") and weight.dtype != torch.float64
    dtype = torch.get_autocast_dtype("cuda") if cast else weight.dtype
    matrix: Tensor = Padded.apply(weight, rows, dtype)  # pyright: ignore
    shift: Any = None if bias is None else Padded.apply(bias, rows, dtype)
    wide = functional.linear(x, matrix, shift)
    return wide.narrow(-1, 0, classes), wide
