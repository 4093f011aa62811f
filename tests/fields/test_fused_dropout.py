"""Dropout as one kernel is dropout by the formula, bit for bit, and no tracer ever meets the kernel."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpu import GPU, TRITON, interpret, kernels
from torch import Tensor
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import splitstep as ss
from splitstep.fields import Context
from splitstep.fields import dropout as dropped
from splitstep.kernels.dropout import FUSED, Fused, formula, keep, kernel
from splitstep.kernels.fusing import checked

CASES = [(0, 0, 0.1), (1, 5, 0.3), (2**31 - 2, 41, 0.5), (123456789, 3, 0.9)]


def bits(x: Tensor) -> Tensor:
    """x as integers: zeros have signs."""
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def views(device: str, dtype: torch.dtype) -> Iterator[Tensor]:
    """One block and several, full and not; none, one; in order, out of order, out of line, repeated; tiny numbers."""
    for shape in [(3, 5, 70), (2, 16, 64), (1023,), (1025,), (1,), (0, 4)]:
        yield torch.randn(shape, device=device).to(dtype)
    x = torch.randn(9, 6, 50, device=device).to(dtype)
    yield from (x.transpose(0, 2), x[:, 1::2], x.flatten()[1:], x[:1].expand(4, 6, 50))
    yield torch.linspace(-4, 4, 99, device=device).to(dtype) * torch.finfo(dtype).smallest_normal


def agree(multiply: Callable[..., Tensor], device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself; a type that is truncated may be off by two roundings, and by more below normal numbers."""
    for dtype in FUSED:
        for x in views(device, dtype):
            for (seed, salt, p), kind in product(CASES, (torch.int32, torch.int64)):
                there = torch.tensor(seed, device=device, dtype=kind)
                found, expected = multiply(x, p, there, salt), formula(x, p, there, salt)
                assert found.is_contiguous()
                if dtype in truncates:
                    size = torch.finfo(dtype)
                    torch.testing.assert_close(found, expected, rtol=2 * size.eps, atol=16 * size.smallest_normal)
                else:
                    assert torch.equal(bits(found), bits(expected))
        huge = torch.tensor([torch.inf, -torch.inf, torch.nan, torch.finfo(dtype).max] * 20, device=device).to(dtype)
        found, expected = (f(huge, 0.5, torch.tensor(3, device=device), 1) for f in (multiply, formula))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@TRITON
def test_the_kernel_is_the_formula_in_the_interpreter_of_triton() -> None:
    """The interpreter truncates to bfloat16, where a GPU rounds."""
    interpret(
        "import torch; from test_fused_dropout import agree; from splitstep.kernels.dropout_kernel import multiply; "
        "agree(multiply, 'cpu', [torch.bfloat16])"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_mask_does_not_depend_on_the_type_of_its_seed(dtype: torch.dtype) -> None:
    x = torch.ones(7, 9, dtype=dtype)
    found = [dropped(x, 0.3, torch.tensor(5, dtype=kind), 2) for kind in (torch.int32, torch.int64)]
    assert torch.equal(*found)
    assert torch.equal(found[0], keep(torch.tensor(5), 2, (7, 9), 0.3).to(dtype) * (1 / 0.7))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The salts of all calls of a kernel that the CPU seems to have. Like a real one it reads memory, and no more."""
    salts: list[int] = []

    def multiply(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        x.data_ptr(), seed.data_ptr()  # an error where there is none
        assert not torch.is_grad_enabled()
        salts.append(salt)
        return formula(x, p, seed, salt).contiguous()

    monkeypatch.setattr(importlib.import_module("splitstep.kernels.dropout"), "kernel", lambda kind: multiply)
    return salts


def test_the_kernel_has_all_derivatives(calls: list[int]) -> None:
    x, v, g, seed = torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 6), torch.tensor(3)

    def f(x: Tensor) -> Tensor:
        return dropped(x, 0.3, seed, 1)

    def by_formula(x: Tensor) -> Tensor:
        return formula(x, 0.3, seed, 1)

    x.requires_grad_()
    g.requires_grad_()
    y = f(x)
    assert torch.equal(y, by_formula(x))
    [slope] = torch.autograd.grad(y, x, g, create_graph=True)
    assert torch.equal(slope, by_formula(g))
    assert torch.equal(torch.autograd.grad(slope, g, v)[0], by_formula(v))
    x, g = x.detach(), g.detach()
    y, pull = vjp(f, x)
    assert torch.equal(y, by_formula(x))
    assert torch.equal(pull(g)[0], by_formula(g))
    assert torch.equal(torch.stack(jvp(f, (x,), (v,))), torch.stack((by_formula(x), by_formula(v))))
    with forward_ad.dual_level():
        assert torch.equal(forward_ad.unpack_dual(f(forward_ad.make_dual(x, v))).tangent, by_formula(v))
    assert len(calls) == 9  # each of these by the kernel
    cube = jacfwd(jacrev(lambda x: f(x).pow(3)))(x)
    assert torch.equal(cube, jacfwd(jacrev(lambda x: by_formula(x).pow(3)))(x))
    assert cube.any()
    many = torch.randn(5, 4, 6)
    assert torch.equal(vmap(f)(many), torch.stack([f(x) for x in many]))
    assert torch.equal(vmap(lambda x: Fused.apply(x, 0.3, seed, 1))(many), torch.stack([f(x) for x in many]))


def test_recomputed_activations_have_the_same_mask(calls: list[int]) -> None:
    x = torch.randn(4, 6, requires_grad=True)
    seed = torch.tensor(3)
    slopes = []
    for again in (False, True):

        def f(x: Tensor) -> Tensor:
            return dropped(x.sin(), 0.3, seed, 1).cos()

        y = checkpoint(f, x, use_reentrant=False) if again else f(x)
        slopes.append(torch.autograd.grad(y.sum(), x)[0])
    assert torch.equal(*slopes)
    assert len(calls) == 5


def test_a_seed_that_changed_before_the_backward_pass_is_an_error(calls: list[int]) -> None:
    x, seed = torch.randn(4, 6, requires_grad=True), torch.tensor(3)
    y = dropped(x, 0.3, seed, 1)
    seed.fill_(4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def reversible(device: str = "cpu") -> ss.SplitstepForCausalLM:
    torch.manual_seed(0)
    config = ss.CausalConfig(
        scheme="reversible", layers=1, width=32, heads=2, ffn=64, vocab_size=32, dropout=0.1, attention_dropout=0.1,
        activation_dropout=0.1,
    )  # fmt: skip
    return ss.SplitstepForCausalLM(config).to(device).train()


def gradients(network: ss.SplitstepForCausalLM, call: Callable[..., Any], half: bool = False) -> list[Tensor]:
    """The loss and its gradients."""
    device = network.device
    ids = torch.randint(32, (2, 8), generator=torch.Generator().manual_seed(1)).to(device)
    network.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        loss = call(ids, labels=ids, dropout_seed=torch.tensor(7, device=device)).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
def test_a_reversible_network_runs_the_kernel_forward_and_backward(calls: list[int], half: bool) -> None:
    network, marks = reversible(), list[int]()

    def call(*given: Any, **more: Any) -> Any:
        out = network(*given, **more)
        marks.append(len(calls))
        return out

    found = gradients(network, call, half)
    [forward] = marks
    assert len(calls) == forward + 2 * (forward - 1) + 1  # fields are evaluated again; the embedding is not
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("splitstep.kernels.dropout"), "fusible", lambda x, seed: False)
        expected = gradients(network, network, half)
    assert all(map(torch.equal, found, expected))


def test_only_the_formula_is_compiled(calls: list[int]) -> None:
    x, seed = torch.randn(4, 6), torch.tensor(3)
    compiled = torch.compile(lambda x, seed: dropped(x, 0.2, seed, 1), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, seed), formula(x, 0.2, seed, 1))
    assert not calls


@pytest.mark.slow
def test_only_the_formula_is_compiled_of_a_reversible_network(calls: list[int]) -> None:
    network = reversible()
    expected = gradients(network, network)
    calls.clear()
    torch.compiler.reset()
    found = gradients(network, torch.compile(network, backend="aot_eager"))
    torch.testing.assert_close(found, expected)
    assert not calls


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
def test_a_tracer_that_compiles_in_secret_meets_the_formula(calls: list[int]) -> None:
    """AOT autograd runs Python on its stand-ins while `torch.compiler.is_compiling` is False."""
    stack = reversible().body.stack
    x, seed = torch.randn(2, 8, 32, requires_grad=True), torch.tensor(7)
    wanted = dict(stack.named_parameters())

    def f(parameters: dict[str, Tensor], x: Tensor, seed: Tensor) -> Tensor:
        assert not torch.compiler.is_compiling()
        return functional_call(stack, parameters, (x, Context(causal=True, seed=seed)))

    def slopes(f: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(f(wanted, x, seed).square().sum(), [x, *wanted.values()])

    expected = slopes(f)
    assert calls
    calls.clear()
    found = slopes(aot_function(f, fw_compiler=lambda graph, _: graph, bw_compiler=lambda graph, _: graph))
    torch.testing.assert_close(found, expected)
    assert not calls


def test_a_tracer_that_records_operations_meets_the_formula(calls: list[int]) -> None:
    x, seed, other = torch.randn(4, 6), torch.tensor(3), torch.tensor(4)
    graph = make_fx(lambda x, seed: dropped(x, 0.3, seed, 1))(x, seed)
    assert torch.equal(graph(x, other), formula(x, 0.3, other, 1))
    assert not calls


def test_tensors_without_data_go_the_way_of_the_formula(calls: list[int]) -> None:
    with FakeTensorMode():
        for dtype in FUSED:
            x = torch.empty(4, 6, device="cuda", dtype=dtype)
            y = dropped(x, 0.3, torch.empty((), dtype=torch.int64, device="cuda"), 1)
            assert (y.device.type, y.dtype, y.shape) == ("cuda", dtype, (4, 6))
    assert not calls


def test_other_devices_have_no_kernel() -> None:
    assert kernel("cpu") is None
    if not torch.cuda.is_available():
        assert kernel("cuda") is None


def test_a_kernel_that_fails_is_told_once_and_one_that_is_missing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Any:
        raise error

    assert checked("dropout", "cuda", lambda: 5) == (5 if torch.cuda.is_available() else None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert checked("dropout", "cuda", lambda: 5) == 5
    assert checked("dropout", "cpu", lambda: 5) is None
    assert checked("dropout", "cuda", lambda: fail(ImportError("no triton"))) is None
    with pytest.warns(UserWarning, match="^dropout runs without its kernel, which fails: OSError: no compiler$"):
        assert checked("dropout", "cuda", lambda: fail(OSError("no compiler\nand more"))) is None


@GPU
def test_a_kernel_that_differs_or_fails_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        return formula(x, p, seed, salt + 1)

    def broken(x: Tensor, p: float, seed: Tensor, salt: int) -> Tensor:
        raise OSError("no compiler")

    for multiply, used in ((wrong, False), (broken, False), (formula, True)):
        monkeypatch.setitem(sys.modules, "splitstep.kernels.dropout_kernel", SimpleNamespace(multiply=multiply))
        with nullcontext() if used else pytest.warns(UserWarning, match="runs without its kernel"):
            assert (kernel.__wrapped__("cuda") is not None) == used


@GPU
def test_a_gpu_does_as_the_formula_does() -> None:
    multiply = kernel("cuda")
    assert multiply is not None
    agree(multiply, "cuda")


@GPU
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_gpu_and_a_cpu_have_the_same_masks(dtype: torch.dtype) -> None:
    for seed, salt, p in CASES:
        x = torch.ones(3, 5, 70, dtype=dtype)
        there = dropped(x.cuda(), p, torch.tensor(seed, device="cuda"), salt)
        assert torch.equal(there.cpu(), dropped(x, p, torch.tensor(seed), salt))


@GPU
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


@GPU
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


@GPU
@pytest.mark.parametrize("dtype", FUSED)
def test_a_dropout_is_one_kernel_forward_and_one_backward(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(64, 512, device="cuda").to(dtype).requires_grad_()
    g, seed = torch.randn_like(x), torch.tensor(7, device="cuda", dtype=torch.int32)
    trace = tmp_path / "trace.json"
    if not kernels(lambda: x.detach() * 2, trace):
        pytest.skip("the profiler sees no kernels here")
    assert kernels(lambda: dropped(x, 0.1, seed, 3), trace) == ["_multiply"]
    assert kernels(lambda: torch.autograd.grad(dropped(x, 0.1, seed, 4), x, g), trace) == ["_multiply"] * 2


@GPU
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
