"""Logits over a vocabulary, and their cross-entropy. On a GPU the product is padded to a width that is fast, and the
logits are read once in each of the two passes."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .fusing import FUSED, FastKernel, ordinary, transformed

IGNORED = -100  # a label that no loss counts
ALIGNED = 8  # GPUs multiply half-precision matrices several times slower if their width is not a multiple of it
COLUMNS = 64  # matrices are padded to a multiple of this: 128 bytes, the unit in which memory is read
ENOUGH = 512  # from this many rows on, the faster product is worth a copy of the matrix; decoding has fewer


def shifted(labels: Tensor) -> Tensor:
    """Labels moved one to the left, because position i predicts token i + 1. Slicing the logits would cost more."""
    return functional.pad(labels[..., 1:], (0, 1), value=IGNORED)


def decoder_inputs(labels: Tensor, start: int, padding: int) -> Tensor:
    """Labels moved one to the right after `start`, as a decoder reads them; ignored ones become padding."""
    moved = functional.pad(labels[..., :-1], (1, 0), value=start)
    return moved.masked_fill(moved == IGNORED, padding)


def formula(logits: Tensor, labels: Tensor, items: Tensor | int | None, smoothing: float) -> Tensor:
    """`cross_entropy` by PyTorch's own operations, which a compiler can fuse."""
    reduction = "mean" if items is None else "sum"
    loss = functional.cross_entropy(
        logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32)),
        labels.flatten(),
        ignore_index=IGNORED,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    return loss if items is None else loss / items


class Kernels(NamedTuple):
    """The loss of rows [N, width], of which the first `classes` columns are logits, and its gradient.

    losses(logits, labels, classes, smoothing) -> (the loss of each row, 0 if its label is ignored; its log-sum-exp)
    slopes(logits, labels, lse, g, classes, smoothing) -> g * d(sum of losses)/d(logits), 0 in further columns
    """

    losses: Callable[[Tensor, Tensor, int, float], tuple[Tensor, Tensor]]
    slopes: Callable[[Tensor, Tensor, Tensor, Tensor, int, float], Tensor]


def slope_formula(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The gradient of the summed loss in closed form: automatic differentiation may be switched off."""
    classes = logits.shape[-1]
    truth = functional.one_hot(labels.clamp(min=0), classes) * (1 - smoothing) + smoothing / classes
    return (logits.softmax(-1) - truth).masked_fill((labels == IGNORED)[:, None], 0.0)


def check(kernels: Kernels, kind: str) -> None:
    """An error unless the kernels agree with the formulas on a padded sample of several blocks, the last not full."""
    classes, smoothing, g = 10_007, 0.1, torch.tensor(1000.0, device=kind)
    rows = torch.arange(5, device=kind)
    labels = torch.where(rows == 2, IGNORED, rows * 2500)
    sample = torch.linspace(0, 900, 5 * 10_048, device=kind).view(5, -1).cos() * 8
    sample[:, classes:] = 50.0  # padding must not count
    for dtype in FUSED:
        logits = sample.to(dtype)
        exact = logits[:, :classes].double()
        losses, lse = kernels.losses(logits, labels, classes, smoothing)
        slopes = kernels.slopes(logits, labels, lse, g, classes, smoothing)
        expected = functional.pad(g * slope_formula(exact, labels, smoothing), (0, 41)).to(dtype)
        torch.testing.assert_close(losses.sum().double(), formula(exact, labels, 1, smoothing), rtol=1e-5, atol=0)
        torch.testing.assert_close(slopes, expected, rtol=1e-5 + 2 * torch.finfo(dtype).eps, atol=1e-5)


# The loss as one kernel and its gradient as another: PyTorch's own operations read the logits about ten times.
kernels = FastKernel("cross-entropy", "triton_kernels", check)


def fusible(logits: Tensor, labels: Tensor) -> bool:
    """Whether the kernels may run now; wrong labels are left to the formula, which says what is wrong."""
    return (
        ordinary(logits, labels)
        and not transformed(logits)
        and labels.dtype == torch.int64
        and 0 < logits.numel() == labels.numel() * logits.shape[-1]
        and kernels(logits.device.type) is not None  # last: its first call needs all of these
    )


class Fused(torch.autograd.Function):
    """The summed loss of all rows. If a second derivative may follow, the formula gives the first one."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> Tensor:  # pyright: ignore
        found = kernels(logits.device.type)
        assert found is not None
        ctx.slopes, ctx.classes, ctx.smoothing = found.slopes, classes, smoothing
        losses, lse = found.losses(logits.flatten(0, -2), labels.flatten(), classes, smoothing)
        ctx.save_for_backward(logits, labels, lse)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        logits, labels, lse = ctx.saved_tensors
        if torch.is_grad_enabled():  # with create_graph=True
            total = formula(logits[..., : ctx.classes], labels, 1, ctx.smoothing)
            return *torch.autograd.grad(total, logits, g, create_graph=True), None, None, None
        rows, targets = logits.flatten(0, -2), labels.flatten()
        slopes: Tensor = ctx.slopes(rows, targets, lse, g, ctx.classes, ctx.smoothing)
        return slopes.view(logits.shape), None, None, None


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


def cross_entropy(
    logits: Tensor, labels: Tensor, items: Tensor | int | None, smoothing: float = 0.0, wide: Tensor | None = None
) -> Tensor:
    """Cross-entropy of the labels that are not ignored: their mean, or their sum divided by `items` if the caller
    counts over several batches or processes. `wide` is the second result of `project`, beside the logits."""
    wide = logits if wide is None else wide
    if not fusible(wide, labels):
        return formula(logits, labels, items, smoothing)
    total: Tensor = Fused.apply(wide, labels, logits.shape[-1], smoothing)  # pyright: ignore
    return total / ((labels != IGNORED).sum() if items is None else items)
