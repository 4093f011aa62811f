"""Queries and keys are split and turned, their gradients turned back and joined, as the formulas say."""

from functools import partial

import pytest
import torch
from torch import Tensor

import splitstep.kernels.rotary as module
from splitstep.fields import Context, FieldSpec, SelfAttention, norm, rotary
from splitstep.kernels.rotary import join_formula, join_opaque, split_formula, split_opaque

B, T, SIZE = 2, 5, 6
HEADS = [(2, 2), (4, 2), (3, 1)]


def packed(queries: int, keys: int, dtype: torch.dtype = torch.float64, batch: int = B, length: int = T) -> Tensor:
    return torch.randn(batch, length, (queries + 2 * keys) * SIZE, dtype=dtype)


def angles(dtype: torch.dtype = torch.float64, batch: int = 1) -> tuple[Tensor, Tensor]:
    positions = torch.arange(T)[None] + 3 * torch.arange(batch)[:, None]
    cos, sin = rotary(positions, SIZE)
    return cos.to(dtype), sin.to(dtype)


@pytest.mark.parametrize(("queries", "keys"), HEADS)
def test_joining_inverts_and_transposes_splitting(queries: int, keys: int) -> None:
    x, y = packed(queries, keys), packed(queries, keys)
    there = split_formula(x, *angles(), queries, keys)
    torch.testing.assert_close(join_formula(*there, *angles()), x, rtol=0, atol=1e-6)  # angles are single precision
    other = split_formula(y, *angles(), queries, keys)
    inner = sum((a * b).sum() for a, b in zip(there, other, strict=True))
    torch.testing.assert_close(inner, (join_formula(*other, *angles()) * x).sum())


@pytest.mark.parametrize(("dtype", "batch"), [(torch.float64, B), (torch.bfloat16, 1)])
@pytest.mark.parametrize("heads", HEADS)
def test_the_operators_do_as_the_formulas(heads: tuple[int, int], dtype: torch.dtype, batch: int) -> None:
    x, (cos, sin) = packed(*heads, dtype), angles(dtype, batch)
    found, expected = split_opaque(x, cos, sin, *heads), split_formula(x, cos, sin, *heads)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(join_opaque(*found, cos, sin), join_formula(*expected, cos, sin))
    torch.library.opcheck(split_opaque, (x.float().requires_grad_(), cos.float(), sin.float(), *heads))
    parts = [one.float().detach().requires_grad_() for one in found]
    torch.library.opcheck(join_opaque, (*parts, cos.float(), sin.float()))


def test_the_operators_have_first_and_second_derivatives() -> None:
    x = packed(2, 1, length=T).requires_grad_()

    def act(x: Tensor) -> Tensor:
        q, k, v = split_opaque(x, *angles(), 2, 1)
        return (q.sin() * k * v).sum(1)

    assert torch.autograd.gradcheck(act, x)
    assert torch.autograd.gradgradcheck(act, x)


def test_results_of_one_token_share_no_memory_with_the_rows() -> None:
    x = packed(2, 1, batch=1, length=1)
    cos, sin = (one[:, :, :1] for one in angles())
    start, end = x.untyped_storage().data_ptr(), x.untyped_storage().data_ptr() + x.nbytes
    for one in split_opaque(x, cos, sin, 2, 1):
        assert not start <= one.data_ptr() < end


def field() -> SelfAttention:
    spec = FieldSpec(width=24, norm=partial(norm, "layer", 24), name="A", layer=0, salt=0, heads=4, kv_heads=2)
    return SelfAttention(spec)


@pytest.mark.slow
def test_a_compiled_field_with_the_operators_has_the_gradients_of_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, x = field(), torch.randn(B, T, 24, requires_grad=True)
    context = Context(causal=True, rotary=angles(torch.float32))
    expected = attention(0.0, x, context)
    slope = torch.autograd.grad(expected.square().sum(), x)[0]

    def always(qkv: Tensor) -> bool:
        return True

    monkeypatch.setattr(module, "fusible", always)
    torch.compiler.reset()
    from torch._inductor.utils import run_and_get_code

    compiled = torch.compile(attention, fullgraph=True)

    def act() -> tuple[Tensor, Tensor]:
        y = compiled(0.0, x, context)
        return y, torch.autograd.grad(y.square().sum(), x)[0]

    (y, dx), codes = run_and_get_code(act)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(dx, slope)
    assert codes[0].count("torch.ops.splitstep.split_rotary.default(") == 1
    assert codes[1].count("torch.ops.splitstep.join_rotary.default(") == 1
