"""The fields compute their formulas, and attention has all the derivatives that Jacobian work needs."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from field_cases import fresh, normal
from torch import Tensor, nn
from torch.func import jvp, vjp
from torch.nn import functional

from splitstep.fields import (
    ACTIVATIONS,
    Context,
    CrossAttention,
    FeedForward,
    FieldSpec,
    Projection,
    SelfAttention,
    barrier,
    exact_attention,
    norm,
    rotary,
)
from splitstep.kernels.dropout import keep
from splitstep.kernels.rotary import opaque_angle_table, rotate
from splitstep.letters import AttentionOptions
from splitstep.models.body import sinusoids

B, T, S, D, HEADS = 2, 5, 4, 12, 3
EXACT = {"atol": 1e-12, "rtol": 1e-11}


def spec(width: int, kind: str = "layer", **more: Any) -> FieldSpec:
    return FieldSpec(width, partial(norm, kind, width), **more)


def self_attention(**more: Any) -> Any:
    return fresh(SelfAttention(spec(D, heads=HEADS, **more)))


def written_out(field: Any, x: Tensor, mask: Tensor | None = None, drop: Tensor | float = 1.0) -> Tensor:
    """A(x), head by head."""
    z, e = field.norm(x), field.size
    q, k, v = field.qkv(z).split(field.qkv.sizes, -1)
    group = q.shape[-1] // k.shape[-1]
    heads = []
    for i in range(HEADS):
        own, shared = slice(i * e, (i + 1) * e), slice(i // group * e, (i // group + 1) * e)
        scores = q[..., own] @ k[..., shared].mT / math.sqrt(e)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(-1) * (drop[:, i] if isinstance(drop, Tensor) else drop)
        heads.append(weights @ v[..., shared])
    return field.out(torch.cat(heads, -1))


@pytest.mark.parametrize("head_size", [None, 7])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_self_attention_is_its_formula(kv_heads: int, head_size: int | None) -> None:
    field, x = self_attention(kv_heads=kv_heads, head_size=head_size), normal(B, T, D)
    assert field.qkv.sizes == tuple((head_size or 4) * heads for heads in (HEADS, kv_heads, kv_heads))
    torch.testing.assert_close(field(0.0, x), written_out(field, x), **EXACT)
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    torch.testing.assert_close(field(0.0, x, Context(causal=True)), written_out(field, x, causal), **EXACT)
    mask = torch.tensor([[True] * T, [True] * 2 + [False] * 3])
    padded = field(0.0, x, Context(mask=mask[:, None, None]))
    torch.testing.assert_close(padded, written_out(field, x, mask[:, None]), **EXACT)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_queries_and_keys_have_norms_of_their_own_before_they_are_turned(kind: Any) -> None:
    field, x = self_attention(kv_heads=1, options=AttentionOptions(qk_norm=kind)), normal(B, T, D)
    bare = self_attention(kv_heads=1)
    bare.load_state_dict({name: w for name, w in field.state_dict().items() if name[:6] not in ("q_norm", "k_norm")})
    q, k, v = bare.qkv(bare.norm(x)).split(bare.qkv.sizes, -1)
    q = torch.cat([field.q_norm(one) for one in q.split(4, -1)], -1)
    qkv = torch.cat((q, field.k_norm(k), v), -1)
    bare.qkv.forward = lambda x: qkv
    angles = rotary(torch.arange(T)[None], 4, 100.0, torch.float64)
    for context in (Context(causal=True), Context(rotary=angles)):
        torch.testing.assert_close(field(0.0, x, context), bare(0.0, x, context), **EXACT)


def test_norms_of_queries_and_keys_keep_the_type_of_products() -> None:
    field, x = self_attention(options=AttentionOptions(qk_norm="rms")).float(), normal(B, T, D).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert {one.dtype for one in field.pairing(x, Context())[:3]} == {torch.bfloat16}


def test_cross_attention_reads_the_memory() -> None:
    field, x, memory = fresh(CrossAttention(spec(D, heads=HEADS))), normal(B, T, D), normal(B, S, D, seed=5)
    mask = torch.tensor([[True] * S, [True, True, False, False]])
    k, v = field.kv(memory).chunk(2, -1)
    q = field.q(field.norm(x))
    heads = []
    for i in range(HEADS):
        own = slice(i * 4, (i + 1) * 4)
        scores = (q[..., own] @ k[..., own].mT / 2).masked_fill(~mask[:, None], -math.inf)
        heads.append(scores.softmax(-1) @ v[..., own])
    expected = field.out(torch.cat(heads, -1))
    context = Context(memory=memory, memory_mask=mask[:, None, None])
    torch.testing.assert_close(field(0.0, x, context), expected, **EXACT)


@pytest.mark.parametrize("context", [Context(causal=True), Context(), Context(mask=torch.ones(B, 1, 1, T).bool())])
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_attention_dropout_is_a_mask_on_the_softmax(kv_heads: int, context: Context) -> None:
    field = self_attention(kv_heads=kv_heads, attention_dropout=0.3, dropout=0.2, salt=6)
    x, seed = normal(B, T, D), torch.tensor(17)
    inner = keep(seed, 4 * 6, (B, HEADS, T, T), 0.3).double() / 0.7
    outer = keep(seed, 4 * 6 + 1, (B, T, D), 0.2).double() / 0.8
    mask = torch.ones(T, T, dtype=torch.bool).tril() if context.causal else None
    expected = written_out(field, x, mask, inner) * outer
    torch.testing.assert_close(field(0.0, x, context._replace(seed=seed)), expected, **EXACT)
    torch.testing.assert_close(field(0.0, x, context), written_out(field, x, mask), **EXACT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("kind", ["all", "causal", "padded", "barred", "rotary", "cross"])
def test_attention_weights_are_those_of_the_field(kind: str, kv_heads: int, dtype: torch.dtype) -> None:
    x, memory, padding = normal(B, T, D).to(dtype), normal(B, S, D, seed=5).to(dtype), torch.ones(B, 1, 1, T).bool()
    padding[1, ..., 2:] = False
    context = {
        "causal": Context(causal=True),
        "padded": Context(mask=padding),
        "barred": Context(mask=barrier(padding & torch.ones(T, T).bool().tril(), dtype)),
        "rotary": Context(causal=True, rotary=rotary(3 + torch.arange(T)[None], 6)),
        "cross": Context(memory=memory, memory_mask=padding[..., :S]),
    }.get(kind, Context())
    make = CrossAttention if kind == "cross" else SelfAttention
    field = fresh(make(spec(D, heads=HEADS, head_size=6, kv_heads=None if kind == "cross" else kv_heads))).to(dtype)
    tight = {"atol": 1e-12, "rtol": 0} if dtype == torch.float64 else {"atol": 1e-6, "rtol": 1e-6}
    weights = field.weights(0.0, x, context)
    assert weights.shape == (B, HEADS, T, S if kind == "cross" else T)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, HEADS, T, dtype=dtype), **tight)
    v = field.pairing(x, context).v
    y = weights @ v.repeat_interleave(HEADS // v.shape[1], 1)
    torch.testing.assert_close(field.out(y.transpose(1, 2).flatten(2)), field(0.0, x, context), **tight)
    seen = {"causal": torch.ones(T, T).tril().bool(), "padded": padding, "cross": padding[..., :S]}.get(kind)
    if seen is not None:
        assert (weights.masked_select(~seen) == 0).all()
        assert (weights.masked_select(seen) > 0).all()


@pytest.mark.parametrize("kind", ["bool", "barred", "cross"])
def test_a_query_that_may_look_nowhere_looks_everywhere(kind: str) -> None:
    """Fused, written out and with dropout alike."""
    x, seen = normal(B, T, D), torch.ones(B, 1, T, T).bool().tril()
    seen[1] = False
    mask = barrier(seen, x.dtype) if kind == "barred" else seen
    context = Context(memory=x, memory_mask=mask) if kind == "cross" else Context(mask=mask)
    make = CrossAttention if kind == "cross" else SelfAttention
    field = fresh(make(FieldSpec(D, heads=HEADS, attention_dropout=0.3)))
    weights = field.weights(0.0, x, context)
    assert (weights[1] > 0).all()
    assert (weights[0].masked_select(~seen[0]) == 0).all()
    y = weights @ field.pairing(x, context).v
    torch.testing.assert_close(field.out(y.transpose(1, 2).flatten(2)), field(0.0, x, context), **EXACT)
    assert field(0.0, x, context._replace(seed=torch.tensor(3))).isfinite().all()


def test_attention_weights_are_those_of_torch() -> None:
    theirs = nn.MultiheadAttention(D, HEADS, batch_first=True).double()
    field, x = fresh(SelfAttention(FieldSpec(D, heads=HEADS))), normal(B, T, D)
    theirs.load_state_dict(
        {
            "in_proj_weight": field.qkv.weight,
            "in_proj_bias": field.qkv.bias,
            "out_proj.weight": field.out.weight,
            "out_proj.bias": field.out.bias,
        }
    )
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    output, weights = theirs(x, x, x, attn_mask=hidden, need_weights=True, average_attn_weights=False)
    context = Context(causal=True, seed=torch.tensor(3))  # a seed without dropout, as in training
    torch.testing.assert_close(field.weights(0.0, x, context), weights, **EXACT)
    torch.testing.assert_close(field(0.0, x, context), output, **EXACT)


def differentiable(kind: str) -> tuple[Any, Context]:
    places = rotary(torch.arange(T)[None], D // HEADS)
    if kind == "self":
        return self_attention(), Context(rotary=places)
    if kind == "causal":
        return self_attention(), Context(causal=True, rotary=places)
    if kind == "grouped":
        return self_attention(kv_heads=1), Context(causal=True)
    if kind == "padded":
        mask = torch.tensor([[True] * T, [True] * 2 + [False] * 3])[:, None, None]
        return self_attention(), Context(mask=mask)
    if kind == "dropout":
        return self_attention(attention_dropout=0.2, dropout=0.2), Context(seed=torch.tensor(4))
    return fresh(CrossAttention(spec(D, heads=HEADS))), Context(memory=normal(B, S, D, seed=5))


KINDS = ["self", "causal", "grouped", "padded", "dropout", "cross"]


@pytest.mark.parametrize("kind", KINDS)
def test_exact_attention_has_jacobian_products(kind: str) -> None:
    field, context = differentiable(kind)
    x, v, w = normal(B, T, D), normal(B, T, D, seed=1), normal(B, T, D, seed=2)
    eps = 1e-5

    def f(x: Tensor) -> Tensor:
        return field(0.0, x, context)

    with exact_attention(), torch.no_grad():
        finite = (f(x + eps * v) - f(x - eps * v)) / (2 * eps)
    with exact_attention():
        y, forward = jvp(f, (x,), (v,))
        _, pull = vjp(f, x)
        torch.testing.assert_close(forward, finite, atol=1e-7, rtol=1e-6)
        [backward] = pull(w)
        torch.testing.assert_close((backward * v).sum(), (w * forward).sum(), **EXACT)
    torch.testing.assert_close(f(x), y, **EXACT)  # as the fused kernel has it


@pytest.mark.parametrize("kind", KINDS)
def test_exact_attention_has_second_derivatives(kind: str) -> None:
    field, context = differentiable(kind)
    x, v = normal(B, T, D).requires_grad_(), normal(B, T, D, seed=1)

    def slope(x: Tensor, create: bool) -> Tensor:
        return torch.autograd.grad(field(0.0, x, context).square().sum(), x, create_graph=create)[0]

    eps = 1e-5
    with exact_attention():
        [twice] = torch.autograd.grad((slope(x, True) * v).sum(), x)
        finite = (slope(x + eps * v, False) - slope(x - eps * v, False)) / (2 * eps)
    torch.testing.assert_close(twice, finite, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rotary_angles_are_those_of_single_precision_in_any_type(dtype: torch.dtype) -> None:
    positions, q = torch.tensor([[0, 1, 7, 1000], [5, 6, 7, 8]]), normal(2, 3, 4, 8).to(dtype)
    wide, found = rotary(positions, 8, 100.0), rotary(positions, 8, 100.0, dtype)
    assert all(a.dtype == dtype and torch.equal(a, b.to(dtype)) for a, b in zip(found, wide, strict=True))
    assert torch.equal(rotate(q, found), rotate(q, wide))
    torch.library.opcheck(opaque_angle_table, (positions, 8, 100.0, dtype))


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("position", [0, 5, 12])
def test_rotary_turns_pairs_by_their_own_rate(position: int, base: float) -> None:
    """By an angle in proportion to the position, so scores depend on relative positions only."""
    e, x = 6, normal(1, 1, 1, 6)
    y = rotate(x, rotary(torch.tensor([[position]]), e, base))
    for i in range(e // 2):
        angle = position * base ** (-2 * i / e)
        z = complex(x[..., i].item(), x[..., i + e // 2].item()) * complex(math.cos(angle), math.sin(angle))
        assert abs(y[..., i].item() - z.real) < 1e-5
        assert abs(y[..., i + e // 2].item() - z.imag) < 1e-5


@pytest.mark.parametrize("width", [2, 8, 9, 512])
def test_sinusoids_are_their_closed_form(width: int) -> None:
    positions = torch.tensor([[0, 1, 7, 100]])
    table = sinusoids(positions, width)
    assert table.shape == (1, 4, width)
    half = width // 2
    for row, position in enumerate(positions[0].tolist()):
        for i in range(half):
            angle = position * math.exp(-math.log(10000.0) * i / max(half - 1, 1))
            assert abs(table[0, row, i].item() - math.sin(angle)) < 2e-5
            assert abs(table[0, row, half + i].item() - math.cos(angle)) < 2e-5
    assert (table[..., 2 * half :] == 0).all()


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_feed_forward_is_its_formula_with_dropout_masks_inside_and_outside(name: str) -> None:
    field = fresh(FeedForward(spec(D, ffn=7, activation=name, dropout=0.2, activation_dropout=0.3, salt=5)))
    x, seed = normal(B, T, D), torch.tensor(8)
    y = functional.linear(field.norm(x), field.up.weight, field.up.bias)
    act = {
        "relu": lambda: y.clamp(min=0),
        "gelu": lambda: y * (1 + torch.erf(y / math.sqrt(2))) / 2,
        "gelu-tanh": lambda: y / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))),
        "relu2": lambda: y.clamp(min=0) ** 2,
        "silu": lambda: y / (1 + (-y).exp()),
        "swiglu": lambda: y[..., :7] / (1 + (-y[..., :7]).exp()) * y[..., 7:],
        "geglu": lambda: y[..., :7] * (1 + torch.erf(y[..., :7] / math.sqrt(2))) / 2 * y[..., 7:],
    }[name]()
    inner, outer = (keep(seed, 20, (B, T, 7), 0.3).double() / 0.7, keep(seed, 21, (B, T, D), 0.2).double() / 0.8)
    torch.testing.assert_close(field(0.0, x), field.down(act), **EXACT)
    torch.testing.assert_close(field(0.0, x, Context(seed=seed)), field.down(act * inner) * outer, **EXACT)


def test_norms_are_their_formulas() -> None:
    x = normal(B, T, D)
    layer, rms = fresh(norm("layer", D, 1e-3)), fresh(norm("rms", D, 1e-3))
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(layer(x), scaled * layer.weight + layer.bias, **EXACT)
    torch.testing.assert_close(rms(x), x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * rms.weight, **EXACT)
    tanh, bare = fresh(norm("tanh", D)), norm("tanh", D, affine=False)
    torch.testing.assert_close(tanh(x), torch.tanh(tanh.a * x) * tanh.weight + tanh.bias, **EXACT)
    torch.testing.assert_close(bare(x), torch.tanh(x / 2), **EXACT)
    assert [name for name, _ in bare.named_parameters()] == ["a"]
    assert norm("none", D)(x) is x
    assert not list(norm("layer", D, affine=False).parameters())
    assert torch.equal(Projection(layer)(0.0, x, None), layer(x))
    with pytest.raises(ValueError, match=r"Unknown norm 'batch': use one of layer, rms, tanh, none"):
        norm("batch", D)
    with pytest.raises(ValueError, match=r"Unknown activation 'tanh': use one of relu"):
        FeedForward(FieldSpec(D, ffn=7, activation="tanh"))
