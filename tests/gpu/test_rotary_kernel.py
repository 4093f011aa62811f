"""The kernels of rotary positions do as the formulas, bit for bit."""

from __future__ import annotations

from itertools import product

import pytest
import torch

import splitstep as ss
from splitstep.kernels.fusing import FUSED
from splitstep.kernels.rotary import join_formula, kernels, rotary, split_formula

SHAPES = [(1, 1, 1, 1, 2), (2, 33, 3, 3, 64), (3, 100, 8, 2, 48), (1, 257, 12, 12, 128), (4, 64, 5, 1, 6)]


@pytest.mark.parametrize(("shape", "dtype", "own"), list(product(SHAPES, FUSED, (False, True))))
def test_the_kernels_do_as_the_formulas(shape: tuple[int, ...], dtype: torch.dtype, own: bool) -> None:
    found = kernels("cuda")
    assert found is not None
    b, t, queries, keys, size = shape
    positions = torch.arange(t, device="cuda")[None] + (torch.arange(b, device="cuda")[:, None] * 7 if own else 0)
    cos, sin = rotary(positions, size, dtype=dtype)
    x = torch.randn(b, t, (queries + 2 * keys) * size, device="cuda").to(dtype)
    parts = found.split(x, cos, sin, queries, keys)
    for one, expected in zip(parts, split_formula(x, cos, sin, queries, keys), strict=True):
        assert torch.equal(one, expected)
    for layout in (lambda y: y, lambda y: y.contiguous(), lambda y: y.mT.contiguous().mT):
        q, k, v = (layout(one) for one in parts)
        assert torch.equal(found.join(q, k, v, cos, sin), join_formula(q, k, v, cos, sin))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_has_the_gradients_of_the_formulas(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    import splitstep.kernels.rotary as module

    config = ss.CausalConfig(layers=2, width=64, heads=4, kv_heads=2, vocab_size=50, positions="rotary")
    torch.manual_seed(0)
    model = ss.SplitstepForCausalLM(config).cuda().train()
    ids = torch.randint(50, (3, 40), device="cuda")

    def slopes() -> list[torch.Tensor]:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            return list(torch.autograd.grad(model(ids, labels=ids).loss, list(model.parameters())))

    found = slopes()
    monkeypatch.setattr(module, "fusible", lambda _: False)
    for one, other in zip(found, slopes(), strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-4 if dtype == torch.float32 else 0.05, atol=1e-5 if dtype == torch.float32 else 1e-3
        )
