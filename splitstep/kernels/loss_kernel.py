"""Cross-entropy as two Triton kernels. Only `kernels` of loss.py imports this, on first use: Triton may be missing.

Each program works on one row. Loads are wide only if the compiler knows a divisor of offsets and widths, so these are
given as multiples of `unit`; columns after the last class are loaded too, and then masked.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from .loss import IGNORED

BLOCK = 2048  # columns at a time: 16 a thread leave registers for many programs
LOWEST = tl.constexpr(-3.4028234663852886e38)  # finite, so differences to it are not NaN


@triton.jit(do_not_specialize=["classes", "units", "stride"])
def _losses(
    logits, labels, losses, lses, classes, units, stride, smoothing,
    ignored: tl.constexpr, smooth: tl.constexpr, unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr,
):  # fmt: skip
    """loss = (1 - smoothing) * (lse - logit of the label) + smoothing * (lse - mean of the logits); 0 if ignored.

    Each lane has a running maximum and sum of exponentials of its own: one exponential for each logit, and no lane
    waits for another before the end. A label that is not a class makes both results NaN.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride * unit
    label = tl.load(labels + row)
    if label == ignored:
        tl.store(losses + row, 0.0)
        return
    lane = tl.arange(0, block)
    top = tl.full([block], LOWEST, tl.float32)
    mass = tl.zeros([block], tl.float32)
    total = tl.zeros([block], tl.float32)
    for number in range(blocks):
        column = number * block + lane
        inside = column < classes
        x = tl.load(logits + column, column < units * unit, other=0.0).to(tl.float32)
        if smooth:
            total += tl.where(inside, x, 0.0)
        x = tl.where(inside, x, float("-inf"))
        ratio = tl.exp(-tl.abs(x - top))  # of the smaller exponential to the larger
        mass = tl.where(x > top, mass * ratio + 1.0, mass + ratio)
        top = tl.maximum(top, x)
    highest = tl.max(top, 0)
    lse = highest + tl.log(tl.sum(mass * tl.exp(top - highest), 0))
    known = (label >= 0) & (label < classes)
    lse = tl.where(known, lse, float("nan"))
    loss = lse - tl.load(logits + label, known, other=0.0).to(tl.float32)
    if smooth:
        loss = (1.0 - smoothing) * loss + smoothing * (lse - tl.sum(total, 0) / classes)
    tl.store(losses + row, loss)
    tl.store(lses + row, lse)


@triton.jit(do_not_specialize=["classes", "units", "stride"])
def _slopes(
    logits, labels, lses, g, slopes, classes, units, stride, smoothing,
    ignored: tl.constexpr, unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr,
):  # fmt: skip
    """g * (softmax - (1 - smoothing) * truth - smoothing / classes); 0 after the last class and if ignored."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride * unit
    slopes += row * units * unit
    label = tl.load(labels + row)
    counts = label != ignored
    lse = tl.load(lses + row)
    scale = tl.load(g).to(tl.float32)
    lane = tl.arange(0, block)
    for number in range(blocks):
        column = number * block + lane
        within = column < units * unit
        x = tl.load(logits + column, within & counts, other=0.0).to(tl.float32)
        slope = tl.exp(x - lse) - smoothing / classes
        slope = tl.where(column == label, slope - (1.0 - smoothing), slope) * scale
        slope = tl.where(counts & (column < classes), slope, 0.0)
        tl.store(slopes + column, slope.to(slopes.dtype.element_ty), within)


def rows_of(logits: Tensor) -> Tensor:
    return logits if logits.stride(1) == 1 else logits.contiguous()


def launch(kernel: Any, logits: Tensor, others: tuple[Tensor, ...], classes: int, smoothing: float, *also: Any) -> None:
    """Start one program for each row."""
    rows, width = logits.shape
    stride = logits.stride(0)
    unit, block = gcd(width, stride, 16), min(BLOCK, triton.next_power_of_2(width))
    with torch.cuda.device_of(logits):  # kernels start on the current device, not on that of their tensors
        kernel[(rows,)](
            logits, *others, classes, width // unit, stride // unit, float(smoothing), IGNORED, *also, unit, block,
            triton.cdiv(width, block), num_warps=max(1, block // 512),
        )  # fmt: skip


def losses(logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> tuple[Tensor, Tensor]:
    """Each row's loss and log-sum-exp; the latter is undefined if the label is ignored."""
    logits = rows_of(logits)
    found, lse = (torch.empty(len(logits), device=logits.device, dtype=torch.float32) for _ in range(2))
    launch(_losses, logits, (labels.contiguous(), found, lse), classes, smoothing, smoothing > 0)
    return found, lse


def slopes(logits: Tensor, labels: Tensor, lse: Tensor, g: Tensor, classes: int, smoothing: float) -> Tensor:
    """The gradient, in the logits' type. g is read on the device, so a captured graph can be replayed with another."""
    logits = rows_of(logits)
    found = torch.empty(logits.shape, device=logits.device, dtype=logits.dtype)
    launch(_slopes, logits, (labels.contiguous(), lse, g, found), classes, smoothing)
    return found
