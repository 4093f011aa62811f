"""Logits over a padded matrix and cross-entropy by kernels on a GPU, against the head and the formula."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fused_loss import KINDS, agree, build, by_hand, outcome, padded, sample, slow
from gpu import kernels as launched
from torch import Tensor, nn
from torch.nn import functional

from splitstep.kernels.loss import FUSED, IGNORED, cross_entropy, formula, fusible, kernels, slope_formula
from splitstep.kernels.output_product import Padded, project
from splitstep.tasks.measures import score_tokens


def test_kernels_that_differ_or_fail_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = by_hand([])

    def wrong(logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> tuple[Tensor, Tensor]:
        return right.losses(logits, labels, classes, 0.0)

    def broken(*given: Any) -> tuple[Tensor, Tensor]:
        raise OSError("no compiler")

    for losses, used in ((wrong, False), (broken, False), (right.losses, True)):
        module = SimpleNamespace(losses=losses, slopes=right.slopes)
        monkeypatch.setitem(sys.modules, "splitstep.kernels.loss_kernel", module)
        with nullcontext() if used else pytest.warns(UserWarning, match="runs without its kernel"):
            assert (kernels.checked("cuda") is not None) == used


def test_a_gpu_does_as_the_formula_does() -> None:
    found = kernels("cuda")
    assert found is not None
    agree(found, "cuda")


@pytest.mark.parametrize(("rows", "classes"), [(66_000, 33_278), (20, 299_999)])
def test_many_rows_and_long_rows_are_no_different(rows: int, classes: int) -> None:
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


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("dtype", FUSED)
def test_a_captured_graph_reads_the_labels_and_items_of_the_moment(dtype: torch.dtype) -> None:
    wide, labels = sample(40, 1024, 1001, "cuda")
    wide = wide.to(dtype).requires_grad_()
    items = torch.tensor(30, device="cuda")

    def both() -> tuple[Tensor, Tensor]:
        loss = cross_entropy(wide[:, :1001], labels, items, 0.1, wide)
        return loss.detach(), torch.autograd.grad(loss, wide)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        assert fusible(wide, labels)
        both()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss, slope = both()
    for number in (30, 7, 1):
        labels.copy_(torch.randint(1001, (40,)))
        labels[: 40 - number] = IGNORED
        items.fill_(number)
        graph.replay()
        expected = formula(wide[:, :1001], labels, items, 0.1)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-5)
        [gradient] = torch.autograd.grad(expected, wide)
        torch.testing.assert_close(slope, gradient, rtol=2 * torch.finfo(dtype).eps + 1e-5, atol=1e-6)


@pytest.mark.parametrize("half", [False, True], ids=["float32", "bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_on_a_gpu_is_that_of_head_and_formula(kind: str, half: bool) -> None:
    model = build(kind, 1001).cuda()
    if kind == "masked":
        nn.init.normal_(model.head.bias)
    loss, logits, slopes = outcome(model, half)
    assert (logits.shape, logits.stride(1)) == ((12, 50, 1001), 1024)
    assert logits.dtype == (torch.bfloat16 if half else torch.float32)
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        expected, others, gradients = outcome(model, half)
    assert others.is_contiguous()
    close: dict[str, float] = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(loss, expected, rtol=1e-3 if half else 1e-5, atol=0)
    torch.testing.assert_close(logits, others, **close)
    largest = max(gradient.norm() for gradient in gradients)
    for found, gradient in zip(slopes, gradients, strict=True):
        assert (found - gradient).norm() <= close["rtol"] * max(gradient.norm(), largest / 100)  # some are but noise


@pytest.mark.parametrize("dtype", FUSED)
def test_a_loss_is_one_kernel_over_the_logits_forward_and_one_backward(dtype: torch.dtype, tmp_path: Path) -> None:
    wide, labels = sample(600, 10_048, 10_007, "cuda")
    wide = wide.to(dtype).requires_grad_()
    items, trace = torch.tensor(500, device="cuda"), tmp_path / "trace.json"
    if not launched(lambda: wide.detach() * 2, trace):
        pytest.skip("the profiler sees no kernels here")

    def both(loss: Callable[..., Tensor], *more: Any) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(loss(wide[:, :10_007], labels, items, 0.1, *more), wide)

    names = launched(both(cross_entropy, wide), trace)
    assert names.count("_losses") == names.count("_slopes") == 1
    assert len(names) <= 8, (
        names
    )  # the sum, the division and its gradient, and the gradient's beginning: single numbers
    assert len(names) < len(launched(both(formula), trace))


def test_an_odd_vocabulary_has_aligned_products_and_one_copy_of_the_matrix(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    head = nn.Linear(256, 10_007, bias=False, device="cuda")
    x = torch.randn(2048, 256, device="cuda", requires_grad=True)
    g = torch.randn(2048, 10_048, device="cuda").to(torch.bfloat16)

    def product() -> Any:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            _, wide = project(head, x)
        return torch.autograd.grad(wide, [x, head.weight], g)

    if not (names := launched(product, trace)):
        pytest.skip("the profiler sees no kernels here")
    assert not [name for name in names if "align1" in name or "align2" in name], names
    assert len(launched(lambda: Padded.apply(head.weight.detach(), 10_048, torch.bfloat16), trace)) == 2


def test_scores_on_a_gpu_copy_no_logits() -> None:
    wide, labels = sample(1000, 33_280, 33_278, "cuda")
    for dtype in FUSED:
        logits = wide.to(dtype).view(10, 100, -1)[..., :33_278]
        score_tokens(logits, labels.view(10, 100))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = score_tokens(logits, labels.view(10, 100))
        assert torch.cuda.max_memory_allocated() - before < 2**23  # the logits have eight times as much, and more
        expected = score_tokens(logits.cpu(), labels.view(10, 100).cpu())
        assert found == pytest.approx(expected, rel=1e-5)
