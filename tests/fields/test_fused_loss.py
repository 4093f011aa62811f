"""Logits over a padded matrix are those of the head, cross-entropy by kernels is that of the formula, and no tracer
ever meets a kernel."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from kernel_cases import KINDS, build, by_hand, outcome, sample, slow
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from splitstep.kernels import loss as loss_module
from splitstep.kernels.loss import IGNORED, Padded, bare, cross_entropy, formula, fusible, project, unaligned
from splitstep.tasks.measures import score_tokens


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


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of kernels that the CPU seems to have."""
    names: list[str] = []
    made = by_hand(names)
    monkeypatch.setattr(loss_module, "kernels", lambda kind: made)
    return names


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
        monkeypatch.setattr(loss_module, "Padded", pad)
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_model_is_the_model_itself(kind: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(kind, 101)
    if kind == "masked":
        nn.init.normal_(model.head.bias)
    names = list(model.state_dict())
    monkeypatch.setattr(loss_module, "unaligned", lambda head, x: head.weight.shape[0] % 8 != 0)
    loss, logits, slopes = outcome(model)
    assert (logits.shape, logits.stride()) == ((12, 50, 101), (50 * 128, 128, 1))
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        expected = outcome(model)
    assert calls == ["losses", "slopes"]
    torch.testing.assert_close((loss, logits, slopes), expected)
    assert list(model.state_dict()) == names


def test_scores_by_kernels_are_those_of_copies(calls: list[str]) -> None:
    wide, labels = sample(12, 64, 30)
    logits, labels = wide.view(3, 4, 64)[..., :30], labels.view(3, 4)
    found = score_tokens(logits, labels)
    assert calls == ["losses"]
    with pytest.MonkeyPatch.context() as patch:
        slow(patch)
        assert found == pytest.approx(score_tokens(logits, labels), rel=1e-6)
    assert found["tokens"] == 11
