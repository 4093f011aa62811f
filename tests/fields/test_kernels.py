"""One contract for all kernels: they are their formulas, their checks notice others, and formulas serve elsewhere; and
formulas that stand beside no test of their own: Gumbel noise, softmax over long rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from gpu import TRITON, interpret
from kernel_cases import CASES, KEYS, by_hand, dropout_by_hand, uniform
from torch import Tensor
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from splitstep.kernels import dropout, loss, softmax
from splitstep.kernels.fusing import FUSED, FastKernel
from splitstep.kernels.gumbel import add_gumbel, gumbel
from splitstep.kernels.softmax import FORMULAS, softmax_kernels

names = pytest.mark.parametrize("name", CASES)


@TRITON
@names
def test_in_the_interpreter_of_triton_a_kernel_is_its_formula(name: str) -> None:
    interpret(f"from kernel_cases import in_interpreter; in_interpreter({name!r})")


@names
def test_the_check_notices_kernels_that_differ(name: str) -> None:
    case = CASES[name]
    with torch.inference_mode():
        case.kernel.check(case.right, "cpu")
    for wrong in case.wrong:
        with pytest.raises(AssertionError, match=r"not close|not equal"):
            case.kernel.check(wrong, "cpu")


@names
def test_other_devices_have_no_kernel(name: str) -> None:
    assert CASES[name].kernel("cpu") is None
    if not torch.cuda.is_available():
        assert CASES[name].kernel("cuda") is None


def test_a_kernel_that_fails_is_reported_and_one_that_is_missing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(kind: str, path: str = "fusing:plain", wrong: Exception | None = None) -> Any:
        def check(function: Any, kind: str) -> None:
            if wrong is not None:
                raise wrong

        return FastKernel[Any]("dropout", path, check)(kind)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert found("cuda") is FastKernel[Any]("", "fusing", found).load().plain
    assert found("cpu") is None
    assert found("cuda", "no_such_module:multiply") is None
    for how in ({"path": "fusing:nothing"}, {"wrong": OSError("no compiler\nand more")}):
        with pytest.warns(
            UserWarning, match="^dropout runs without its kernel, which fails: .*(nothing'|no compiler)$"
        ):
            assert found("cuda", **how) is None


@pytest.mark.parametrize("step", [0, 1, 255, 2**40])
def test_the_noise_has_the_bits_of_pythons_integers(step: int) -> None:
    keys = torch.tensor(KEYS)
    drawn = torch.tensor([[uniform(key, step, token) for token in range(99)] for key in KEYS], dtype=torch.float64)
    assert torch.equal(gumbel(keys, step, 99), -(-drawn.log()).log())
    assert keys.tolist() == list(KEYS)  # the noise is computed in place, but not there
    scores = torch.randn(len(KEYS), 99)
    before = scores.clone()
    assert torch.equal(add_gumbel(scores, keys, step, 0.7), before.double() / 0.7 + gumbel(keys, step, 99))
    assert torch.equal(scores, before)


def rows(seed: int) -> torch.Tensor:
    return 3 * torch.randn(7, 30, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("entries", [1, 90, 2**25])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_rows_are_summed_and_spread_as_pytorch_does(
    temperature: float, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "ENTRIES", entries)
    x, scale = rows(0), torch.linspace(-1, 2, 7, dtype=torch.float64)
    x[:, 4] = -torch.inf
    lse = FORMULAS.row_lse(x, temperature)
    torch.testing.assert_close(lse, (x / temperature).logsumexp(-1))
    expected = scale[:, None] * (x / temperature).softmax(-1)
    assert FORMULAS.scaled_exp_(x, lse, scale, temperature) is x
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("classes", [1, 23, 30])
def test_a_weighted_divergence_has_pytorchs_value_and_gradient(classes: int) -> None:
    p, q, weights = rows(1), rows(2), torch.linspace(0, 2, 7, dtype=torch.float64)
    logits = q.clone().requires_grad_()
    log_p, log_q = (x[:, :classes].log_softmax(-1) for x in (p, logits))
    expected = weights * torch.nn.functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(FORMULAS.weighted_kl_(p, q, weights, classes), expected)
    torch.testing.assert_close(q, torch.autograd.grad(expected.sum(), logits)[0])


def test_double_precision_has_no_kernels() -> None:
    assert softmax_kernels(rows(0)) is None


class Fused(NamedTuple):
    """A function that may use a kernel, the same by its formula, and calls of a kernel that the CPU seems to have."""

    f: Callable[[Tensor], Tensor]
    formula: Callable[[Tensor], Tensor]
    calls: list[Any]


@pytest.fixture(params=["dropout", "loss"])
def fused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Fused:
    calls: list[Any] = []
    if request.param == "loss":
        made = by_hand(calls)
        monkeypatch.setattr(loss, "kernels", lambda kind: made)

        def labels(x: Tensor) -> Tensor:
            return torch.arange(x.shape[:-1].numel(), device=x.device).view(x.shape[:-1]) % x.shape[-1]

        return Fused(
            lambda x: loss.cross_entropy(x, labels(x), 5, 0.1), lambda x: loss.formula(x, labels(x), 5, 0.1), calls
        )

    def seed(x: Tensor) -> Tensor:
        return torch.zeros((), dtype=torch.int64, device=x.device)

    multiply = dropout_by_hand(calls)
    monkeypatch.setattr(dropout, "kernel", lambda kind: multiply)
    return Fused(lambda x: dropout.dropout(x, 0.3, seed(x), 1), lambda x: dropout.formula(x, 0.3, seed(x), 1), calls)


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
def test_no_tracer_meets_a_kernel(fused: Fused) -> None:
    """Compilers, also one that runs Python on its stand-ins while `torch.compiler.is_compiling` is False; recorders of
    operations, tensors without data."""
    x, v = torch.randn(3, 4, 7, requires_grad=True), torch.randn(3, 4, 7)
    secret = aot_function(fused.f, fw_compiler=lambda graph, _: graph, bw_compiler=lambda graph, _: graph)
    slopes = [torch.autograd.grad(f(x).square().sum(), x) for f in (secret, fused.formula)]
    torch.testing.assert_close(*slopes)
    x = x.detach()
    torch.compiler.reset()
    compiled = torch.compile(fused.f, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), fused.formula(x))
    assert torch.equal(make_fx(fused.f)(x)(v), fused.formula(v))
    with FakeTensorMode():
        for dtype in FUSED:
            fake = torch.empty(3, 4, 7, device="cuda", dtype=dtype)
            found, expected = fused.f(fake), fused.formula(fake)
            assert (found.device.type, found.dtype, found.shape) == ("cuda", expected.dtype, expected.shape)
    assert not fused.calls


def test_transforms_give_what_they_give_of_the_formula(fused: Fused) -> None:
    x, v = torch.randn(3, 4, 7), torch.randn(3, 4, 7)

    def tangent(f: Callable[[Tensor], Tensor]) -> Tensor:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(f(forward_ad.make_dual(x, v))).tangent

    def curvature(f: Callable[[Tensor], Tensor]) -> Tensor:
        return grad(lambda x: (grad(lambda x: f(x).pow(3).sum())(x) * v).sum())(x)

    for way in (tangent, curvature, lambda f: jvp(f, (x,), (v,)), lambda f: vmap(f)(x)):
        torch.testing.assert_close(way(fused.f), way(fused.formula))
