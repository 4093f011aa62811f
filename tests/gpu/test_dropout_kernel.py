"""Dropout as one kernel on a GPU is dropout by the formula, bit for bit."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fused_dropout import CASES, agree, gradients, reversible
from gpu import kernels
from torch import Tensor

from splitstep.fields import dropout as dropped
from splitstep.kernels.dropout import FUSED, formula, kernel


def test_a_kernel_that_differs_or_fails_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        return formula(x, p, seed, salt + 1)

    def broken(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        raise OSError("no compiler")

    for multiply, used in ((wrong, False), (broken, False), (formula, True)):
        monkeypatch.setitem(sys.modules, "splitstep.kernels.dropout_kernel", SimpleNamespace(multiply=multiply))
        with nullcontext() if used else pytest.warns(UserWarning, match="runs without its kernel"):
            assert (kernel.checked("cuda") is not None) == used


def test_a_gpu_does_as_the_formula_does() -> None:
    multiply = kernel("cuda")
    assert multiply is not None
    agree(multiply, "cuda")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_gpu_and_a_cpu_have_the_same_masks(dtype: torch.dtype) -> None:
    for seed, salt, p in CASES:
        x = torch.ones(3, 5, 70, dtype=dtype)
        there = dropped(x.cuda(), p, torch.tensor(seed, device="cuda"), salt)
        assert torch.equal(there.cpu(), dropped(x, p, torch.tensor(seed), salt))


@pytest.mark.parametrize("dtype", FUSED)
def test_gradients_on_a_gpu_go_through_the_same_mask(dtype: torch.dtype) -> None:
    x, g, v = (torch.randn(6, 70, device="cuda").to(dtype) for _ in range(3))
    x.requires_grad_()
    g.requires_grad_()
    seed = torch.tensor(9, device="cuda")
    y = dropped(x.t(), 0.3, seed, 2)
    assert torch.equal(y, formula(x.t(), 0.3, seed, 2))
    [slope] = torch.autograd.grad(y, x, g.t(), create_graph=True)
    assert torch.equal(slope, formula(g.t(), 0.3, seed, 2).t())
    [back] = torch.autograd.grad(slope, g, v)
    assert torch.equal(back, formula(v.t(), 0.3, seed, 2).t())
    [ones] = torch.autograd.grad(dropped(x, 0.3, seed, 2).sum(), x)
    assert torch.equal(ones, formula(torch.ones_like(x), 0.3, seed, 2))


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_a_captured_graph_reads_the_seed_of_the_moment(kind: torch.dtype) -> None:
    x = torch.randn(8, 200, device="cuda", requires_grad=True)
    g, seed = torch.randn(8, 200, device="cuda"), torch.tensor(1, device="cuda", dtype=kind)

    def both() -> tuple[Tensor, Tensor]:
        y = dropped(x, 0.3, seed, 5)
        return y.detach(), torch.autograd.grad(y, x, g)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        both()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y, slope = both()
    masks = []
    for value in (1, 77, 2**31 - 2):
        seed.fill_(value)
        graph.replay()
        assert torch.equal(y, formula(x, 0.3, seed, 5))
        assert torch.equal(slope, formula(g, 0.3, seed, 5))
        masks.append(y != 0)
    assert not torch.equal(masks[0], masks[1])


@pytest.mark.parametrize("dtype", FUSED)
def test_a_dropout_is_one_kernel_forward_and_one_backward(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(64, 512, device="cuda").to(dtype).requires_grad_()
    g, seed = torch.randn_like(x), torch.tensor(7, device="cuda", dtype=torch.int32)
    trace = tmp_path / "trace.json"
    if not kernels(lambda: x.detach() * 2, trace):
        pytest.skip("the profiler sees no kernels here")
    assert kernels(lambda: dropped(x, 0.1, seed, 3), trace) == ["_multiply"]
    assert kernels(lambda: torch.autograd.grad(dropped(x, 0.1, seed, 4), x, g), trace) == ["_multiply"] * 2


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
def test_a_reversible_network_on_a_gpu_is_that_of_the_formula_compiled_too(half: bool) -> None:
    network = reversible("cuda")
    found = gradients(network, network, half)
    torch.compiler.reset()
    compiled = gradients(network, torch.compile(network, backend="aot_eager"), half)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("splitstep.kernels.dropout"), "fusible", lambda x, seed: False)
        expected = gradients(network, network, half)
    close: dict[str, float] = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(found, expected, **close)
    torch.testing.assert_close(compiled, expected, **close)
