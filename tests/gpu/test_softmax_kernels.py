"""Softmax over long rows by kernels on a GPU is that of the formulas, and so are the divergences."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpu import kernels as launched
from softmax_cases import agree
from torch import Tensor

from splitstep.distillation.losses import kl_divergence, row_divergences
from splitstep.distillation.records import top_k
from splitstep.distillation.span_divergence import Side, weighted_kl
from splitstep.kernels.softmax import FORMULAS, kernels, softmax_of


def test_kernels_that_differ_or_fail_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Tensor, temperature: float) -> Tensor:
        return FORMULAS.row_lse(x, 2 * temperature)

    def broken(*given: Any) -> Tensor:
        raise OSError("no compiler")

    for row_lse, used in ((wrong, False), (broken, False), (FORMULAS.row_lse, True)):
        module = SimpleNamespace(**FORMULAS._replace(row_lse=row_lse)._asdict())
        monkeypatch.setitem(sys.modules, "splitstep.kernels.softmax_kernel", module)
        with nullcontext() if used else pytest.warns(UserWarning, match="runs without its kernel"):
            assert (kernels.checked("cuda") is not None) == used


def test_a_gpu_does_as_the_formulas_do() -> None:
    found = kernels("cuda")
    assert found is not None
    agree(found, "cuda")


def test_offsets_beyond_32_bits_are_no_different() -> None:
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs more memory")
    found, x = kernels("cuda"), torch.zeros(45_000, 49_152, device="cuda", dtype=torch.bfloat16)
    assert found is not None
    x[-1] = torch.linspace(-5, 5, 49_152, device="cuda")
    last = x[-1:].double()
    lse = found.row_lse(x, 1.0)
    torch.testing.assert_close(lse[-1:].double(), last.logsumexp(-1), rtol=1e-6, atol=1e-5)
    found.scaled_exp_(x, lse, torch.full_like(lse, 1000.0), 1.0)
    torch.testing.assert_close(x[-1:].double(), 1000 * last.softmax(-1), rtol=1e-2, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_divergence_from_a_cache_is_that_of_double_precision(dtype: torch.dtype) -> None:
    random = torch.Generator("cuda").manual_seed(0)
    p, q = (3 * torch.randn(50, 4001, device="cuda", generator=random).to(dtype) for _ in range(2))
    assert softmax_of(q) is not FORMULAS
    found: list[tuple[Tensor, Tensor]] = []
    for x in (q, q.double()):
        values = row_divergences(top_k(p.to(x.dtype), 64, (2.0,)), x.requires_grad_(), kl_divergence, 2.0)
        found.append((values.double(), torch.autograd.grad(values.sum(), x)[0].double()))
    (values, slopes), (exact, expected) = found
    torch.testing.assert_close(values, exact, rtol=2e-3, atol=1e-5)
    torch.testing.assert_close(slopes, expected, rtol=1e-2, atol=1e-6)


def test_a_divergence_of_spans_does_not_depend_on_kernels_or_padding() -> None:
    random = torch.Generator("cuda").manual_seed(0)

    def side(points: int, rows: int, width: int) -> Side:
        return Side(*(torch.randn(n, width, device="cuda", generator=random) for n in (points, rows)))

    teacher, student, weights = side(300, 1003, 64), side(300, 1003, 32), torch.rand(300, device="cuda")
    for x in student:
        x.requires_grad_()
    fused = weighted_kl(teacher, student, weights)
    slopes = torch.autograd.grad(fused, student)
    doubles = [Side(*(x.detach().double() for x in one)) for one in (teacher, student)]
    for x in doubles[1]:
        x.requires_grad_()
    exact = weighted_kl(*doubles, weights.double())
    torch.testing.assert_close(fused.double(), exact, rtol=1e-4, atol=0)
    for slope, expected in zip(slopes, torch.autograd.grad(exact, doubles[1]), strict=True):
        torch.testing.assert_close(slope.double(), expected, rtol=1e-2, atol=1e-3)


def test_each_function_is_one_kernel(tmp_path: Path) -> None:
    x, scale = torch.randn(64, 16_000, device="cuda"), torch.rand(64, device="cuda")
    if not launched(lambda: x * 2, tmp_path / "t.json"):
        pytest.skip("the profiler sees no kernels here")
    fused = softmax_of(x)
    assert launched(lambda: fused.row_lse(x, 2.0), tmp_path / "t.json") == ["_row_lse"]
    assert launched(lambda: fused.scaled_exp_(x, scale, scale, 1.0), tmp_path / "t.json") == ["_scaled_exp"]
    assert launched(lambda: fused.weighted_kl_(x, x.clone(), scale, 16_000), tmp_path / "t.json")[-1] == "_weighted_kl"
