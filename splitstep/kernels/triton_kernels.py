"""All Triton kernels: functions of long rows of logits (cross-entropy, softmax), rotary positions, random numbers by
hashing counters (dropout, Gumbel noise). Only `FastKernel` imports this, on first use: Triton may be missing.

Rows: each program works on one row. Loads are wide only if the compiler knows a divisor of offsets and widths, so these
are given as multiples of `unit`; columns after the last class are loaded too, and then masked. Each lane has a running
maximum and a sum of exponentials of its own: one exponential for each logit, and no lane waits for another.

Hashing: integers are unsigned, so that shifts bring zeros from the left and products wrap around.
"""

from math import gcd
from typing import Any

import torch
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from torch import Tensor

from . import gumbel
from .dropout import floor_of, offset_of
from .loss import IGNORED
from .rotary import empty_parts, empty_rows

COLUMNS = 2048  # of a row at a time: 16 a thread leave registers for many programs
POSITIONS = 32  # of one program that turns queries and keys
ENTRIES = 1024  # or tokens, of one program that hashes
LOWEST = tl.constexpr(-3.4028234663852886e38)  # finite, so differences to it are not NaN
STEP, TOKEN, FIRST, SECOND = (
    tl.constexpr(number % 2**64) for number in (gumbel.STEP, gumbel.TOKEN, gumbel.FIRST, gumbel.SECOND)
)
REST, SPACING = tl.constexpr(64 - gumbel.BITS), tl.constexpr(2.0**-gumbel.BITS)


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
    unit, block = gcd(width, *strides, 16), min(COLUMNS, triton.next_power_of_2(width))
    units = (width // unit, *(stride // unit for stride in strides))
    with torch.cuda.device_of(tensors[0]):  # kernels start on the current device, not on that of their tensors
        kernel[(rows,)](
            *tensors, *numbers, *units, *more, unit, block, triton.cdiv(width, block), num_warps=max(1, block // 512)
        )


def neighbours(x: Tensor) -> bool:
    """Whether the numbers of each row are neighbours in memory."""
    return x.shape[-1] == 1 or x.stride(-1) == 1


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


@triton.jit
def _turn(source, target, heads, source_head, target_head, cos, sin, near, far, near_to, far_to, inside, turned):
    """Copy some heads at a block of positions; if `turned`, rotate their pairs on the way, rounding once."""
    for head in range(heads):
        u = tl.load(source + head * source_head + near, inside, other=0.0)
        v = tl.load(source + head * source_head + far, inside, other=0.0)
        if turned:
            a, b = u.to(tl.float32), v.to(tl.float32)
            u, v = (a * cos - b * sin).to(u.dtype), (b * cos + a * sin).to(v.dtype)
        tl.store(target + head * target_head + near_to, u, inside)
        tl.store(target + head * target_head + far_to, v, inside)


@triton.jit
def _move(
    packed, q, k, v, cosines, sines, length, queries, keys, table_batch, packed_batch, packed_row,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, sign,
    half: tl.constexpr, width: tl.constexpr, block: tl.constexpr, split: tl.constexpr,
):  # fmt: skip
    """Move queries, keys or values (program 2 says which) out of the packed rows (`split`) or back into them."""
    size = 2 * half
    batch = tl.program_id(0).to(tl.int64)
    row = (tl.program_id(1) * block + tl.arange(0, block))[:, None]
    lane = tl.arange(0, width)[None, :]
    inside = (row < length) & (lane < half)
    which = tl.program_id(2)
    table = batch * table_batch + row * size + lane
    cos = tl.load(cosines + table, inside, other=0.0).to(tl.float32)
    sin = tl.load(sines + table, inside, other=0.0).to(tl.float32) * sign
    heads = tl.where(which == 0, queries, keys)
    before = tl.where(which == 0, 0, tl.where(which == 1, queries, queries + keys))
    apart = q if which == 0 else (k if which == 1 else v)
    apart += batch * tl.where(which == 0, q_batch, tl.where(which == 1, k_batch, v_batch))
    head_stride = tl.where(which == 0, q_head, tl.where(which == 1, k_head, v_head))
    at = row * tl.where(which == 0, q_row, tl.where(which == 1, k_row, v_row)) + lane
    packed += batch * packed_batch + before * size
    within = row * packed_row + lane
    if split:
        _turn(
            packed, apart, heads, size, head_stride, cos, sin, within, within + half, at, at + half, inside, which < 2
        )
    else:
        _turn(
            apart, packed, heads, head_stride, size, cos, sin, at, at + half, within, within + half, inside, which < 2
        )


def move(packed: Tensor, parts: tuple[Tensor, Tensor, Tensor], cos: Tensor, sin: Tensor, split: bool) -> None:
    """Run the kernel between packed rows [B, T, heads * size] and parts [B, heads, T, size], the last of stride 1."""
    q, k, v = parts
    cos, sin = (one.to(packed.dtype).contiguous() for one in (cos, sin))
    b, queries, length, size = q.shape
    strides = [n for one in parts for n in one.stride()[:3]]
    launch = _move[(b, triton.cdiv(length, POSITIONS), 3)]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(packed):  # kernels start on the current device, not on that of their tensors
        launch(
            packed, q, k, v, cos, sin, length, queries, k.shape[1], cos.stride(0) if len(cos) > 1 else 0,
            *packed.stride()[:2], *strides, 1.0 if split else -1.0, half=size // 2,
            width=triton.next_power_of_2(size // 2), block=POSITIONS, split=split, enable_fp_fusion=False,
        )  # fmt: skip


def split(qkv: Tensor, cos: Tensor, sin: Tensor, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """`split_formula`."""
    parts = empty_parts(qkv, cos, sin, queries, keys)
    move(dense(qkv), parts, cos, sin, True)
    return parts


def join(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`join_formula`."""
    packed = empty_rows(q, k, v, cos, sin)
    move(packed, (dense(q), dense(k), dense(v)), cos, sin, False)
    return packed


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
    launch = _multiply[(triton.cdiv(n, ENTRIES),)]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(x):  # kernels start on the current device, not on that of their tensors
        launch(x, y, seed, offset_of(salt), floor_of(p), 1 / (1 - p), n, ENTRIES, sanitize_overflow=False)  # pyright: ignore
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
    scores = dense(scores)
    rows, tokens = scores.shape
    sums = torch.empty(scores.shape, device=scores.device, dtype=torch.float64)
    launch = _add[(rows, triton.cdiv(tokens, ENTRIES))]  # pyright: ignore[reportIndexIssue]
    with torch.cuda.device_of(scores):  # kernels start on the current device, not on that of their tensors
        launch(scores, keys.contiguous(), sums, step, tokens, scores.stride(0), float(temperature), ENTRIES)
    return sums
