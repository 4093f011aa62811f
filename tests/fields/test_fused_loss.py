"""Logits over a padded matrix are those of the head, cross-entropy by kernels is that of the formula, and no tracer
ever meets a kernel."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpu import GPU, TRITON, interpret
from gpu import kernels as launched
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

import splitstep as ss
from splitstep.kernels.loss import (
    FUSED,
    IGNORED,
    Kernels,
    check,
    cross_entropy,
    formula,
    fusible,
    kernels,
    slope_formula,
)
from splitstep.kernels.output_product import COLUMNS, Padded, bare, project, unaligned
from splitstep.tasks.task import score_tokens

LOSS = importlib.import_module("splitstep.kernels.loss")
PROJECT = importlib.import_module("splitstep.kernels.output_product")
KINDS = ("causal", "masked", "translation")


def padded(classes: int) -> int:
    return -(-classes // COLUMNS) * COLUMNS


def sample(rows: int, width: int, classes: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Logits with numbers that must not be used behind the last class, and labels, the second of which is ignored."""
    random = torch.Generator().manual_seed(width)
    logits = 3 * torch.randn(rows, width, generator=random)
    logits[:, classes:] = 100.0
    labels = torch.randint(classes, (rows,), generator=random)
    labels[1] = IGNORED
    return logits.to(device), labels.to(device)


def compare(kernels: Kernels, logits: Tensor, labels: Tensor, classes: int, smoothing: float, rtol: float) -> None:
    """Losses and gradients against the formulas in float64."""
    scale = 1000.0
    exact = logits[:, :classes].double()
    losses, lse = kernels.losses(logits, labels, classes, smoothing)
    slopes = kernels.slopes(logits, labels, lse, torch.tensor(scale, device=logits.device), classes, smoothing)
    expected = functional.cross_entropy(exact, labels, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    assert (losses.dtype, slopes.dtype, slopes.shape) == (torch.float32, logits.dtype, logits.shape)
    assert not slopes[:, classes:].any()
    assert not slopes[labels == IGNORED].any()
    truth = functional.one_hot(labels.clamp(min=0), classes)
    slope = scale * slope_formula(exact, labels, smoothing)
    bound = rtol * (slope.abs() + scale * (truth + smoothing / classes)) + 2e-7  # terms cancel; float16 ends there
    assert ((slopes[:, :classes].double() - slope).abs() <= bound).all()


def agree(kernels: Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: a block and several, full and not; rows with something behind them and between them."""
    check(kernels, device)
    for dtype, smoothing, (classes, rows) in product(FUSED, (0.0, 0.1), ((1, 3), (7, 6), (1000, 4), (33_278, 3))):
        rtol = max(1e-5, (2 if dtype in truncates else 1) * torch.finfo(dtype).eps)
        for width in {classes, padded(classes), classes + 5}:
            logits, labels = sample(rows, width, classes, device)
            compare(kernels, logits.to(dtype), labels, classes, smoothing, rtol)
        between = logits.to(dtype)[:, :classes]
        compare(kernels, between, labels, classes, smoothing, rtol)
        compare(kernels, between.t().contiguous().t(), labels, classes, smoothing, rtol)
        nothing = torch.full_like(labels, IGNORED)
        losses, lse = kernels.losses(between, nothing, classes, smoothing)
        slopes = kernels.slopes(between, nothing, lse, torch.tensor(torch.inf, device=device), classes, smoothing)
        assert not losses.any()
        assert not slopes.any()
    strange(kernels, device)


def strange(kernels: Kernels, device: str) -> None:
    """Classes that are ruled out; rows that are no numbers; labels that are no classes."""
    logits, labels = sample(6, 5000, 5000, device)
    logits[0, :4000] = -torch.inf  # more than a block
    labels[0] = 4500
    compare(kernels, logits, labels, 5000, 0.0, 1e-5)
    logits[0, 0] = -3.4028234663852886e38
    compare(kernels, logits, labels, 5000, 0.0, 1e-5)
    logits[2], logits[3, 7], logits[4, 7], labels[5] = -torch.inf, torch.inf, torch.nan, 5000
    losses, lse = kernels.losses(logits, labels, 5000, 0.1)
    slopes = kernels.slopes(logits, labels, lse, torch.tensor(1.0, device=device), 5000, 0.1)
    assert losses.isnan().tolist() == [False, False, True, True, True, True]
    assert slopes.isnan().any(1).tolist() == [False, False, True, True, True, True]
    assert losses[0] == torch.inf


@TRITON
def test_the_kernels_are_the_formula_in_the_interpreter_of_triton() -> None:
    """The interpreter truncates to bfloat16, where a GPU rounds."""
    interpret(
        "import torch; from test_fused_loss import Kernels, agree; from splitstep.kernels import loss_kernel as k; "
        "agree(Kernels(k.losses, k.slopes), 'cpu', [torch.bfloat16])"
    )


@pytest.mark.parametrize("items", [None, 40, torch.tensor(40)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_on_a_cpu_the_loss_is_that_of_pytorch_to_the_bit(items: Any, smoothing: float) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        logits, labels = sample(12, 30, 30)
        logits = logits.to(dtype).view(3, 4, 30).requires_grad_()
        loss = functional.cross_entropy(
            logits.flatten(0, 1).to(torch.promote_types(dtype, torch.float32)), labels,
            reduction="mean" if items is None else "sum", label_smoothing=smoothing,
        )  # fmt: skip
        loss = loss if items is None else loss / items
        found = cross_entropy(logits, labels.view(3, 4), items, smoothing)
        assert torch.equal(found, loss)
        assert torch.equal(*(torch.autograd.grad(one, logits)[0] for one in (found, loss)))
    head, x = nn.Linear(8, 7), torch.randn(600, 8)
    logits, wide = project(head, x)
    assert logits is wide
    assert torch.equal(logits, head(x))


def by_hand(calls: list[str]) -> Kernels:
    """The kernels, as operations of PyTorch that, like real ones, read memory and no more."""

    def losses(logits: Tensor, labels: Tensor, classes: int, smoothing: float) -> tuple[Tensor, Tensor]:
        logits.data_ptr(), labels.data_ptr()  # an error where there is none
        calls.append("losses")
        rows = logits[:, :classes].float()
        return functional.cross_entropy(rows, labels, reduction="none", label_smoothing=smoothing), rows.logsumexp(1)

    def slopes(logits: Tensor, labels: Tensor, lse: Tensor, g: Tensor, classes: int, smoothing: float) -> Tensor:
        logits.data_ptr(), labels.data_ptr(), lse.data_ptr(), g.data_ptr()
        calls.append("slopes")
        slope = slope_formula(logits[:, :classes].float(), labels, smoothing) * g
        slope = slope.masked_fill((labels == IGNORED)[:, None], 0.0)  # g may be infinite
        return functional.pad(slope, (0, logits.shape[1] - classes)).to(logits.dtype)

    return Kernels(losses, slopes)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of kernels that the CPU seems to have."""
    names: list[str] = []
    made = by_hand(names)
    monkeypatch.setattr(LOSS, "kernels", lambda kind: made)
    return names


def slow(patch: pytest.MonkeyPatch) -> None:
    """Neither padding nor kernels."""
    patch.setattr(LOSS, "fusible", lambda logits, labels: False)
    patch.setattr(PROJECT, "unaligned", lambda head, x: False)


def test_the_check_notices_kernels_that_differ() -> None:
    right = by_hand([])
    check(right, "cpu")
    for change in (0.99, 1.01):
        with pytest.raises(AssertionError):
            check(right._replace(losses=lambda x, y, c, s, f=change: right.losses(x, y, c, f * s)), "cpu")
        with pytest.raises(AssertionError):
            check(
                right._replace(slopes=lambda x, y, lse, g, c, s, f=change: right.slopes(x, y, lse, f * g, c, s)), "cpu"
            )
    with pytest.raises(AssertionError):
        check(Kernels(lambda x, y, c, s: right.losses(x, y, c + 1, s), right.slopes), "cpu")
    with torch.inference_mode():
        check(right, "cpu")


@pytest.mark.parametrize("items", [None, 40, torch.tensor(40)])
def test_the_fused_loss_has_the_gradient_of_the_formula(calls: list[str], items: Any) -> None:
    wide, labels = sample(12, 64, 30)
    labels = torch.stack((labels, labels), 1).view(3, 4, 2)[..., 0]  # out of line
    wide = wide.view(3, 4, 64).requires_grad_()
    found = cross_entropy(wide[..., :30], labels, items, 0.1, wide)
    expected = formula(wide[..., :30], labels, items, 0.1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(3 * loss, wide)[0] for loss in (found, expected)))
    assert calls == ["losses", "slopes"]


def test_a_mean_over_nothing_is_no_number_and_has_no_gradient(calls: list[str]) -> None:
    for loss in (cross_entropy, formula):
        logits = torch.randn(3, 7, requires_grad=True)
        mean = loss(logits, torch.full((3,), IGNORED), None, 0.1)
        assert mean.isnan()
        assert not torch.autograd.grad(mean, logits)[0].any()
    assert calls == ["losses", "slopes"]


def test_a_second_derivative_is_that_of_the_formula(calls: list[str]) -> None:
    wide, labels = sample(12, 64, 30)
    wide[:, 30:], v = 0.0, torch.randn(12, 64)
    wide.requires_grad_()

    def second(loss: Tensor) -> list[Tensor]:
        [slope] = torch.autograd.grad(loss.square(), wide, create_graph=True)
        return [slope, *torch.autograd.grad((slope * v).sum() + loss, wide)]

    found = second(cross_entropy(wide[:, :30], labels, 7, 0.1, wide))
    torch.testing.assert_close(found, second(formula(wide[:, :30], labels, 7, 0.1)))
    assert found[1].any()
    assert calls == ["losses", "slopes"]  # the sum's own gradient is asked for at last, without a graph


def test_logits_that_changed_before_the_backward_pass_are_an_error(calls: list[str]) -> None:
    x = torch.randn(3, 7, requires_grad=True)
    logits = x * 1
    loss = cross_entropy(logits, torch.tensor([1, 2, 3]), 1)
    logits.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_wrong_labels_meet_the_errors_of_the_formula(calls: list[str]) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        cross_entropy(torch.randn(3, 7), torch.tensor([1, 2]), None)
    with pytest.raises(RuntimeError, match="Int"):
        cross_entropy(torch.randn(3, 7), torch.tensor([1, 2, 3], dtype=torch.int32), None)
    assert cross_entropy(torch.randn(0, 7), torch.zeros(0, dtype=torch.int64), 1) == 0
    assert cross_entropy(torch.randn(3, 7).double(), torch.tensor([1, 2, 3]), 1).dtype == torch.float64
    assert not calls


def test_transforms_meet_the_formula(calls: list[str]) -> None:
    x, v, labels = torch.randn(3, 4, 7), torch.randn(3, 4, 7), torch.randint(7, (3, 4))

    def f(x: Tensor) -> Tensor:
        return cross_entropy(x, labels, 5, 0.1)

    def by_formula(x: Tensor) -> Tensor:
        return formula(x, labels, 5, 0.1)

    torch.testing.assert_close(grad(f)(x), grad(by_formula)(x))
    torch.testing.assert_close(
        grad(lambda x: (grad(f)(x) * v).sum())(x), grad(lambda x: (grad(by_formula)(x) * v).sum())(x)
    )
    torch.testing.assert_close(jvp(f, (x,), (v,)), jvp(by_formula, (x,), (v,)))
    torch.testing.assert_close(
        vmap(lambda x, y: cross_entropy(x, y, 5))(x, labels),
        torch.stack([formula(*pair, 5, 0.0) for pair in zip(x, labels, strict=True)]),
    )
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        torch.testing.assert_close(*(forward_ad.unpack_dual(loss(dual)).tangent for loss in (f, by_formula)))
    graph = make_fx(f)(x)
    assert torch.equal(graph(v), by_formula(v))
    with FakeTensorMode():
        for dtype in FUSED:
            fake = torch.empty(3, 4, 7, device="cuda", dtype=dtype)
            loss = cross_entropy(fake, torch.empty(3, 4, device="cuda", dtype=torch.int64), 1)
            assert (loss.device.type, loss.dtype) == ("cuda", torch.float32)
    assert not calls


def test_only_the_head_and_the_formula_are_compiled(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROJECT, "ENOUGH", 1)
    head, x, labels = nn.Linear(8, 7), torch.randn(5, 8), torch.randint(7, (5,))
    graphs: list[Any] = []

    def f(x: Tensor) -> Tensor:
        logits, wide = project(head, x)
        return cross_entropy(logits, labels, 5, 0.1, wide)

    def keep(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    assert torch.equal(torch.compile(f, fullgraph=True, backend=keep)(x), formula(head(x), labels, 5, 0.1))
    assert not calls
    names = [
        node.target for graph in graphs for node in graph.graph.nodes if node.op in ("call_function", "call_method")
    ]
    assert [getattr(name, "__name__", name) for name in names] == [
        "linear",
        "flatten",
        "to",
        "flatten",
        "cross_entropy",
        "truediv",
    ]


def test_padding_appends_rows_of_zeros_and_casts() -> None:
    x = torch.randn(5, 3, requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16):
        y: Any = Padded.apply(x, 8, dtype)
        assert torch.equal(y, functional.pad(x, (0, 0, 0, 3)).to(dtype))
        g = torch.randn(8, 3).to(dtype)
        [slope] = torch.autograd.grad(y, x, g)
        assert torch.equal(slope, g[:5].float())
    shift: Any = Padded.apply(torch.ones(5), 8, torch.bfloat16)
    assert shift.tolist() == [1.0] * 5 + [0.0] * 3


@pytest.mark.usefixtures("calls")
def test_a_padded_product_has_wide_rows_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Linear, "reset_parameters", lambda self: None)  # there is no generator
    if not torch.backends.cuda.is_built():  # nor can anything be copied
        pad = SimpleNamespace(apply=lambda x, rows, dtype: x.new_empty((rows, *x.shape[1:]), dtype=dtype))
        monkeypatch.setattr(PROJECT, "Padded", pad)
    with FakeTensorMode(), torch.no_grad():  # nor are there streams, which gradients need
        for classes, width in ((1001, 1024), (33_278, 33_280), (1000, 1000), (64, 64)):
            for bias in (False, True):
                head = nn.Linear(16, classes, bias=bias, device="cuda")
                x = torch.empty(4, 300, 16, device="cuda")
                logits, wide = project(head, x)
                assert (logits.shape, wide.shape) == ((4, 300, classes), (4, 300, width))
                assert logits.stride() == (300 * width, width, 1)
                assert (logits is wide) == (classes == width)
                assert not fusible(wide, torch.empty(4, 300, dtype=torch.int64, device="cuda"))
                few, same = project(head, torch.empty(4, 2, 16, device="cuda"))
                assert few is same


def test_only_a_bare_head_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Linear, "reset_parameters", lambda self: None)  # there is no generator

    class Wrapped(nn.Linear):
        pass

    with FakeTensorMode():
        head, x = nn.Linear(16, 1001, device="cuda"), torch.empty(600, 16, device="cuda")
        assert unaligned(head, x)
        assert not unaligned(Wrapped(16, 1001, device="cuda"), x)
        assert not unaligned(nn.Sequential(head), x)
        handle = head.register_forward_hook(lambda *given: None)
        assert not unaligned(head, x)
        handle.remove()
        assert unaligned(head, x)
        head.forward = lambda x: x  # as accelerate does
        assert not bare(head)
    assert not unaligned(nn.Linear(16, 1001), torch.randn(600, 16))


def build(kind: str, vocabulary: int, **more: Any) -> Any:
    torch.manual_seed(0)
    special: dict[str, dict[str, Any]] = {"translation": {"label_smoothing": 0.1, "init": "normal"}}
    shape = {"layers": 1, "width": 32, "heads": 2, "ffn": 64, "vocab_size": vocabulary, "max_positions": 64}
    config = ss.models.KINDS[kind].config(scheme="lie", **(shape | special.get(kind, {}) | more))
    return ss.models.KINDS[kind].model(config).train()


def outcome(model: Any, half: bool = False) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Loss, logits and gradients on batches whose labels are ignored here and there."""
    device, random = model.device, torch.Generator().manual_seed(1)
    ids = torch.randint(5, model.config.vocab_size, (12, 50), generator=random)
    labels = ids.masked_fill(torch.rand(ids.shape, generator=random) < 0.3, IGNORED).to(device)
    model.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        items = torch.tensor(700, device=device)
        out = model(
            ids.to(device), labels=labels, num_items_in_batch=items, dropout_seed=torch.tensor(7, device=device)
        )
    out.loss.backward()
    return out.loss.detach(), out.logits.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_model_is_the_model_itself(kind: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(kind, 101)
    if kind == "masked":
        nn.init.normal_(model.head.bias)
    names = list(model.state_dict())
    monkeypatch.setattr(PROJECT, "unaligned", lambda head, x: head.weight.shape[0] % 8 != 0)
    loss, logits, slopes = outcome(model)
    assert (logits.shape, logits.stride()) == ((12, 50, 101), (50 * 128, 128, 1))
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        expected = outcome(model)
    assert calls == ["losses", "slopes"]
    torch.testing.assert_close((loss, logits, slopes), expected)
    assert list(model.state_dict()) == names


def test_a_model_that_got_another_head_is_padded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("causal", 101)
    monkeypatch.setattr(PROJECT, "unaligned", lambda head, x: bare(head))
    assert outcome(model)[1].stride(1) == 128
    model.resize_token_embeddings(130)
    assert isinstance(model.head, nn.Linear)
    _, logits, _ = outcome(model)
    assert (logits.shape, logits.stride(1)) == ((12, 50, 130), 192)


def test_a_model_can_be_differentiated_by_transforms(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("causal", 101)
    monkeypatch.setattr(PROJECT, "ENOUGH", 1)
    ids = torch.randint(5, 101, (2, 9))

    def f(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, parameters, (ids,), {"labels": ids, "dropout_seed": torch.tensor(1)}).loss

    found = grad(f)(dict(model.named_parameters()))
    assert not calls
    model(ids, labels=ids, dropout_seed=torch.tensor(1)).loss.backward()
    assert calls
    torch.testing.assert_close(found, {name: p.grad for name, p in model.named_parameters()})


def test_scores_by_kernels_are_those_of_copies(calls: list[str]) -> None:
    wide, labels = sample(12, 64, 30)
    logits, labels = wide.view(3, 4, 64)[..., :30], labels.view(3, 4)
    found = score_tokens(logits, labels)
    assert calls == ["losses"]
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        assert found == pytest.approx(score_tokens(logits, labels), rel=1e-6)
    assert found["tokens"] == 11


def test_other_devices_have_no_kernels() -> None:
    assert kernels("cpu") is None
    if not torch.cuda.is_available():
        assert kernels("cuda") is None


@GPU
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
            assert (kernels.__wrapped__("cuda") is not None) == used


@GPU
def test_a_gpu_does_as_the_formula_does() -> None:
    found = kernels("cuda")
    assert found is not None
    agree(found, "cuda")


@GPU
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


@GPU
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


@GPU
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


@GPU
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


@GPU
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


@GPU
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
