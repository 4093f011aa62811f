"""Functions of long rows of logits as Triton kernels: cross-entropy and softmax. Only `FastKernel` imports this, on
first use: Triton may be missing.

Each program works on one row. Loads are wide only if the compiler knows a divisor of offsets and widths, so these are
given as multiples of `unit`; columns after the last class are loaded too, and then masked. Each lane has a running
maximum and a sum of exponentials of its own: one exponential for each logit, and no lane waits for another.
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


@triton.jit
def _added(top, mass, x):
    """A running maximum, and the sum of exponentials below it, with one more number."""
    ratio = tl.exp(-tl.abs(x - top))  # of the smaller exponential to the larger
    return tl.maximum(top, x), tl.where(x > top, mass * ratio + 1.0, mass + ratio)


@triton.jit
def _summed(top, mass):
    """The log-sum-exp of all lanes."""
    highest = tl.max(top, 0)
    return highest + tl.log(tl.sum(mass * tl.exp(top - highest), 0))


@triton.jit(do_not_specialize=["classes", "units", "stride"])
def _losses(
    logits, labels, losses, lses, classes, units, stride, smoothing,
    ignored: tl.constexpr, smooth: tl.constexpr, unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr,
):  # fmt: skip
    """loss = (1 - smoothing) * (lse - logit of the label) + smoothing * (lse - mean of the logits); 0 if ignored.
    A label that is not a class makes both results NaN."""
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
        top, mass = _added(top, mass, tl.where(inside, x, float("-inf")))
    lse = _summed(top, mass)
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


@triton.jit(do_not_specialize=["units", "stride"])
def _row_lse(x, found, sharpness, units, stride, unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride * unit
    lane = tl.arange(0, block)
    top = tl.full([block], LOWEST, tl.float32)
    mass = tl.zeros([block], tl.float32)
    for number in range(blocks):
        column = number * block + lane
        value = tl.load(x + column, column < units * unit, other=float("-inf")).to(tl.float32) * sharpness
        top, mass = _added(top, mass, value)
    tl.store(found + row, _summed(top, mass))


@triton.jit(do_not_specialize=["units", "stride"])
def _scaled_exp(
    x, shifts, scales, sharpness, units, stride, unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride * unit
    shift = tl.load(shifts + row)
    scale = tl.load(scales + row)
    lane = tl.arange(0, block)
    for number in range(blocks):
        column = number * block + lane
        within = column < units * unit
        value = scale * tl.exp(tl.load(x + column, within, other=0.0).to(tl.float32) * sharpness - shift)
        tl.store(x + column, value.to(x.dtype.element_ty), within)


@triton.jit(do_not_specialize=["classes", "units", "p_stride", "q_stride"])
def _weighted_kl(
    p, q, weights, values, classes, units, p_stride, q_stride,
    unit: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr,
):  # fmt: skip
    """The second pass over a row finds it in a cache of the device."""
    row = tl.program_id(0).to(tl.int64)
    p += row * p_stride * unit
    q += row * q_stride * unit
    weight = tl.load(weights + row)
    lane = tl.arange(0, block)
    p_top = tl.full([block], LOWEST, tl.float32)
    q_top = tl.full([block], LOWEST, tl.float32)
    p_mass = tl.zeros([block], tl.float32)
    q_mass = tl.zeros([block], tl.float32)
    for number in range(blocks):
        column = number * block + lane
        within, inside = column < units * unit, column < classes
        a = tl.load(p + column, within, other=0.0).to(tl.float32)
        b = tl.load(q + column, within, other=0.0).to(tl.float32)
        p_top, p_mass = _added(p_top, p_mass, tl.where(inside, a, float("-inf")))
        q_top, q_mass = _added(q_top, q_mass, tl.where(inside, b, float("-inf")))
    p_lse = _summed(p_top, p_mass)
    q_lse = _summed(q_top, q_mass)
    total = tl.zeros([block], tl.float32)
    for number in range(blocks):
        column = number * block + lane
        within, inside = column < units * unit, column < classes
        a = tl.load(p + column, within, other=0.0).to(tl.float32) - p_lse
        b = tl.load(q + column, within, other=0.0).to(tl.float32) - q_lse
        likely = tl.exp(a)
        total += tl.where(inside, likely * (a - b), 0.0)
        slope = tl.where(inside, weight * (tl.exp(b) - likely), 0.0)
        tl.store(q + column, slope.to(q.dtype.element_ty), within)
    tl.store(values + row, weight * tl.sum(total, 0))


def launch(kernel: Any, tensors: tuple[Tensor, ...], *numbers: float, strided: int = 1, more: Any = ()) -> None:
    """Start one program for each row of the first tensor. Of the tensors, the first `strided` have rows of its width,
    whose columns are neighbours."""
    rows, width = tensors[0].shape
    strides = [x.stride(0) for x in tensors[:strided]]
    unit, block = gcd(width, *strides, 16), min(BLOCK, triton.next_power_of_2(width))
    units = (width // unit, *(stride // unit for stride in strides))
    with torch.cuda.device_of(tensors[0]):  # kernels start on the current device, not on that of their tensors
        kernel[(rows,)](
            *tensors, *numbers, *units, *more, unit, block, triton.cdiv(width, block), num_warps=max(1, block // 512)
        )


def neighbours(x: Tensor) -> bool:
    """Whether the columns of each row are neighbours in memory."""
    return x.shape[1] == 1 or x.stride(1) == 1


def dense(x: Tensor) -> Tensor:
    return x if neighbours(x) else x.contiguous()


def per_row(x: Tensor) -> Tensor:
    """Room for a number for each row."""
    return torch.empty(len(x), device=x.device, dtype=torch.float32)


def losses(logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> tuple[Tensor, Tensor]:
    """Each row's loss and log-sum-exp; the latter is undefined if the label is ignored."""
    found, lse = per_row(logits), per_row(logits)
    more = float(smoothing), IGNORED, smoothing > 0
    launch(_losses, (dense(logits), labels.contiguous(), found, lse), classes, more=more)
    return found, lse


def slopes(logits: Tensor, labels: Tensor, lse: Tensor, g: Tensor, classes: int, smoothing: float) -> Tensor:
    """The gradient, in the logits' type. g is read on the device, so a captured graph can be replayed with another."""
    found = torch.empty(logits.shape, device=logits.device, dtype=logits.dtype)
    tensors = dense(logits), labels.contiguous(), lse, g, found
    launch(_slopes, tensors, classes, more=(float(smoothing), IGNORED))
    return found


def row_lse(x: Tensor, temperature: float) -> Tensor:
    found = per_row(x)
    launch(_row_lse, (dense(x), found), 1 / temperature)
    return found


def scaled_exp_(x: Tensor, shift: Tensor, scale: Tensor, temperature: float) -> Tensor:
    assert neighbours(x)
    launch(_scaled_exp, (x, shift.float().contiguous(), scale.float().contiguous()), 1 / temperature)
    return x


def weighted_kl_(p: Tensor, q: Tensor, weights: Tensor, classes: int) -> Tensor:
    assert neighbours(p)
    assert neighbours(q)
    values = per_row(q)
    launch(_weighted_kl, (p, q, weights.float().contiguous(), values), classes, strided=2)
    return values
