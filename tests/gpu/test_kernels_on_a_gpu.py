"""One contract for all kernels on a GPU: they are their formulas, in one launch each, and graphs can replay them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu import kernels as launched
from kernel_cases import CASES, KEYS, SEEDS, padded, sample
from torch import Tensor
from torch.nn import functional

from splitstep.fields import dropout as dropped
from splitstep.kernels import gumbel
from splitstep.kernels.dropout import FUSED, formula
from splitstep.kernels.loss import IGNORED, cross_entropy, fusible, kernels, slope_formula
from splitstep.kernels.loss import formula as loss_formula
from splitstep.kernels.softmax import kernels as softmax_kernels
from splitstep.kernels.softmax import softmax_of


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_does_as_the_formula_does(name: str) -> None:
    found = CASES[name].kernel("cuda")
    assert found is not None
    CASES[name].agrees(found, "cuda")


def test_a_gpu_and_a_cpu_have_the_same_random_numbers() -> None:
    for dtype in (*FUSED, torch.float64):
        for seed, salt, p in SEEDS:
            x = torch.ones(3, 5, 70, dtype=dtype)
            there = dropped(x.cuda(), p, torch.tensor(seed, device="cuda"), salt)
            assert torch.equal(there.cpu(), dropped(x, p, torch.tensor(seed), salt))
    keys, scores = torch.tensor(KEYS), torch.randn(len(KEYS), 1000)
    found = gumbel.add_gumbel(scores.cuda(), keys.cuda(), 255)
    torch.testing.assert_close(found.cpu(), gumbel.formula(scores, keys, 255, 1.0), rtol=1e-12, atol=1e-12)


def dropout_launches() -> dict[str, tuple[Callable[[], Any], list[str]]]:
    """What is done, by name, and the kernels that it is to launch."""
    found: dict[str, tuple[Callable[[], Any], list[str]]] = {}
    seed = torch.tensor(7, device="cuda", dtype=torch.int32)
    for dtype in FUSED:
        x = torch.randn(64, 512, device="cuda").to(dtype).requires_grad_()
        g = torch.randn_like(x)
        found[f"dropout {dtype}"] = (lambda x=x: dropped(x, 0.1, seed, 3)), ["_multiply"]
        both = lambda x=x, g=g: torch.autograd.grad(dropped(x, 0.1, seed, 4), x, g)  # noqa: E731
        found[f"its gradient {dtype}"] = both, ["_multiply"] * 2
    return found


def other_launches() -> dict[str, tuple[Callable[[], Any], list[str]]]:
    scores, keys = torch.randn(64, 16_001, device="cuda"), torch.arange(64, device="cuda")
    x, scale = torch.randn(64, 16_000, device="cuda"), torch.rand(64, device="cuda")
    fused = softmax_of(x)
    return {
        "noise": (lambda: [gumbel.add_gumbel(scores, keys, step) for step in (0, 1, 16, 100)], ["_add"] * 4),
        "row_lse": (lambda: fused.row_lse(x, 2.0), ["_row_lse"]),
        "scaled_exp_": (lambda: fused.scaled_exp_(x, scale, scale, 1.0), ["_scaled_exp"]),
        "weighted_kl_": (lambda: fused.weighted_kl_(x, x, scale, 16_000), ["_weighted_kl"]),
    }


def test_each_function_is_one_kernel(tmp_path: Path) -> None:
    x, trace = torch.randn(64, 16_000, device="cuda"), tmp_path / "trace.json"
    if not launched(lambda: x * 2, trace):
        pytest.skip("the profiler sees no kernels here")
    for name, (act, expected) in (dropout_launches() | other_launches()).items():
        assert launched(act, trace) == expected, name


def replayed(act: Callable[[], tuple[Tensor, Tensor]]) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, Tensor]]:
    """A captured graph and what it writes to, after one run in the stream in which it is captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        act()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = act()
    return graph, found


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_a_captured_graph_reads_the_seed_of_the_moment(kind: torch.dtype) -> None:
    x = torch.randn(8, 200, device="cuda", requires_grad=True)
    g, seed = torch.randn(8, 200, device="cuda"), torch.tensor(1, device="cuda", dtype=kind)

    def both() -> tuple[Tensor, Tensor]:
        y = dropped(x, 0.3, seed, 5)
        return y.detach(), torch.autograd.grad(y, x, g)[0]

    graph, (y, slope) = replayed(both)
    masks = []
    for value in (1, 77, 2**31 - 2):
        seed.fill_(value)
        graph.replay()
        assert torch.equal(y, formula(x, 0.3, seed, 5))
        assert torch.equal(slope, formula(g, 0.3, seed, 5))
        masks.append(y != 0)
    assert not torch.equal(masks[0], masks[1])


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("dtype", FUSED)
def test_a_captured_graph_reads_the_labels_and_items_of_the_moment(dtype: torch.dtype) -> None:
    wide, labels = sample(40, 1024, 1001, "cuda")
    wide = wide.to(dtype).requires_grad_()
    items = torch.tensor(30, device="cuda")
    assert fusible(wide, labels)

    def both() -> tuple[Tensor, Tensor]:
        loss = cross_entropy(wide[:, :1001], labels, items, 0.1, wide)
        return loss.detach(), torch.autograd.grad(loss, wide)[0]

    graph, (loss, slope) = replayed(both)
    for number in (30, 7, 1):
        labels.copy_(torch.randint(1001, (40,)))
        labels[: 40 - number] = IGNORED
        items.fill_(number)
        graph.replay()
        expected = loss_formula(wide[:, :1001], labels, items, 0.1)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
        [gradient] = torch.autograd.grad(expected, wide)
        torch.testing.assert_close(slope, gradient, rtol=2 * torch.finfo(dtype).eps + 1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "classes"), [(66_000, 33_278), (20, 299_999)])
def test_a_loss_over_many_rows_and_long_rows_is_no_different(rows: int, classes: int) -> None:
    """Offsets beyond 32 bits, and a vocabulary of 300,000."""
    found, width = kernels("cuda"), padded(classes)
    assert found is not None
    if torch.cuda.mem_get_info()[0] < 8 * rows * width:
        pytest.skip("needs more memory")
    logits = torch.empty(rows, width, device="cuda", dtype=torch.bfloat16).normal_()
    labels = torch.randint(classes, (rows,), device="cuda")
    losses, lse = found.losses(logits, labels, classes, 0.1)
    slopes = found.slopes(logits, labels, lse, torch.tensor(1000.0, device="cuda"), classes, 0.1)
    last = slice(rows - 16, rows)
    exact = logits[last, :classes].double()
    expected = functional.cross_entropy(exact, labels[last], reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(losses[last].double(), expected, rtol=1e-5, atol=1e-5)
    slope = functional.pad(1000 * slope_formula(exact, labels[last], 0.1), (0, width - classes))
    torch.testing.assert_close(slopes[last].double(), slope, rtol=1e-2, atol=1e-4)


def test_a_softmax_over_many_rows_is_no_different() -> None:
    """Offsets beyond 32 bits."""
    if torch.cuda.mem_get_info()[0] < 12 * 2**30:
        pytest.skip("needs more memory")
    found, x = softmax_kernels("cuda"), torch.zeros(45_000, 49_152, device="cuda", dtype=torch.bfloat16)
    assert found is not None
    x[-1] = torch.linspace(-5, 5, 49_152, device="cuda")
    last = x[-1:].double()
    lse = found.row_lse(x, 1.0)
    torch.testing.assert_close(lse[-1:].double(), last.logsumexp(-1), rtol=1e-6, atol=1e-5)
    found.scaled_exp_(x, lse, torch.full_like(lse, 1000.0), 1.0)
    torch.testing.assert_close(x[-1:].double(), 1000 * last.softmax(-1), rtol=1e-2, atol=1e-5)
