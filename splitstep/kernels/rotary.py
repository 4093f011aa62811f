"""Rotary positions: each pair (i, i + size/2) of a head is turned by an angle in proportion to its position.

Queries, keys and values leave one product as [B, T, heads * size]. On a GPU one kernel splits them into heads and turns
the queries and keys; another one turns and joins their gradients. A compiler left to itself works out angles anew in
every layer and fuses the joining of gradients badly, which costs a fifth of the training rate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .fusing import FUSED, FastKernel, ordinary, transformed

Angles = tuple[Tensor, Tensor]  # cosine and sine, [B or 1, 1, T, size]


def angle_table(positions: Tensor, size: int, base: float, dtype: torch.dtype) -> Angles:
    """`rotary` by its formula, in single precision until the end."""
    rates = base ** (-torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size)
    angles = positions[:, None, :, None].float() * torch.cat((rates, rates))
    return angles.cos().to(dtype), angles.sin().to(dtype)


opaque_angle_table = torch.library.custom_op("splitstep::angle_table", angle_table, mutates_args=())


@opaque_angle_table.register_fake
def _(positions: Tensor, size: int, base: float, dtype: torch.dtype) -> Angles:
    cos, sin = (positions.new_empty((len(positions), 1, positions.shape[1], size), dtype=dtype) for _ in range(2))
    return cos, sin


def rotary(positions: Tensor, size: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Angles:
    """Cosine and sine of the rotation angles, [B or 1, 1, T, size], for integer positions [B or 1, T].

    Compiled code reads them from this table: the formula would be copied into the kernels of every layer.
    """
    table = opaque_angle_table if torch.compiler.is_dynamo_compiling() else angle_table  # the formula for export
    return table(positions, size, float(base), dtype)


def rotate(x: Tensor, angles: Angles) -> Tensor:
    """x [B, heads, T, size] with the pairs (i, i + size/2) of each head turned by the angles, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (one.to(x.dtype).to(wide) for one in angles)
    u, v = x.to(wide).chunk(2, -1)
    return (x.to(wide) * cos + torch.cat((-v, u), -1) * sin).to(x.dtype)


def heads_of(x: Tensor, size: int) -> Tensor:
    """[B, T, heads * size] -> [B, heads, T, size]."""
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def split_formula(qkv: Tensor, cos: Tensor, sin: Tensor, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Heads [B, heads, T, size] of queries and keys, turned, and of values, by PyTorch's own operations."""
    size = cos.shape[-1]
    q, k, v = (heads_of(y, size) for y in qkv.split((queries * size, keys * size, keys * size), -1))
    return rotate(q, (cos, sin)), rotate(k, (cos, sin)), v


def join_formula(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The inverse of `split_formula`, which is its transpose too: [B, T, heads * size]."""
    parts = rotate(q, (cos, -sin)), rotate(k, (cos, -sin)), v
    return torch.cat([one.transpose(1, 2).flatten(2) for one in parts], -1)


class Kernels(NamedTuple):
    """`split_formula` and `join_formula`, bit for bit, each as one kernel."""

    split: Callable[[Tensor, Tensor, Tensor, int, int], tuple[Tensor, Tensor, Tensor]]
    join: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def check(kernels: Kernels, kind: str) -> None:
    """An error unless the kernels do as the formulas do, on shared keys, a last block that is not full, and strides."""
    queries, keys, size, length = 3, 1, 24, 70
    angles = rotary(torch.arange(length, device=kind)[None], size)
    sample = torch.linspace(-900, 900, 2 * length * 5 * size, device=kind).view(2, length, -1).cos() * 8
    for dtype in FUSED:
        cos, sin = (one.to(dtype) for one in angles)
        x = sample.to(dtype)
        found, expected = kernels.split(x, cos, sin, queries, keys), split_formula(x, cos, sin, queries, keys)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        q, k, v = expected
        back = kernels.join(q.contiguous(), k, v, cos, sin)
        torch.testing.assert_close(back, join_formula(q, k, v, cos, sin), rtol=0, atol=0)


kernels = FastKernel("rotary positions", "triton_kernels", check)


@torch.library.custom_op("splitstep::split_rotary", mutates_args=())
def split_opaque(qkv: Tensor, cos: Tensor, sin: Tensor, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """`split_formula` as one operation that a compiler does not look into. Its results share no memory with qkv."""
    found = kernels(qkv.device.type)
    if found is not None:
        return found.split(qkv, cos, sin, queries, keys)
    parts = (one.transpose(1, 2) for one in split_formula(qkv, cos, sin, queries, keys))
    q, k, v = (one.clone(memory_format=torch.contiguous_format).transpose(1, 2) for one in parts)
    return q, k, v


@split_opaque.register_fake
def empty_parts(qkv: Tensor, cos: Tensor, sin: Tensor, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for the results of `split_formula`; each part lies in memory as [B, T, heads, size]."""
    b, t = qkv.shape[:2]
    q, k, v = (qkv.new_empty((b, t, heads, cos.shape[-1])).transpose(1, 2) for heads in (queries, keys, keys))
    return q, k, v


@torch.library.custom_op("splitstep::join_rotary", mutates_args=())
def join_opaque(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """`join_formula` as one operation that a compiler does not look into."""
    found = kernels(q.device.type)
    return (join_formula if found is None else found.join)(q, k, v, cos, sin)


@join_opaque.register_fake
def empty_rows(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Room for the result of `join_formula`."""
    heads = q.shape[1] + k.shape[1] + v.shape[1]
    return q.new_empty((q.shape[0], q.shape[2], heads * q.shape[3]))


def keep_split(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])


def split_backward(ctx: Any, dq: Tensor, dk: Tensor, dv: Tensor) -> Any:
    return join_opaque(dq, dk, dv, *ctx.saved_tensors), None, None, None, None


def keep_join(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.heads = inputs[0].shape[1], inputs[1].shape[1]
    ctx.save_for_backward(inputs[3], inputs[4])


def join_backward(ctx: Any, g: Tensor) -> Any:
    return *split_opaque(g, *ctx.saved_tensors, *ctx.heads), None, None


split_opaque.register_autograd(split_backward, setup_context=keep_split)
join_opaque.register_autograd(join_backward, setup_context=keep_join)


def fusible(qkv: Tensor) -> bool:
    """Whether the kernels may serve here and now. They have no rules for `vmap`, forward mode and export."""
    if not qkv.is_cuda or qkv.dtype not in FUSED:
        return False
    return torch.compiler.is_dynamo_compiling() or (ordinary(qkv, qkv) and not transformed(qkv))


def split_rotary(qkv: Tensor, angles: Angles, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Heads of queries and keys, turned by the angles, and of values, each [B, heads, T, size]."""
    return (split_opaque if fusible(qkv) else split_formula)(qkv, *angles, queries, keys)
