"""Dropout as one kernel is dropout by the formula, bit for bit, and no tracer ever meets the kernel."""

from typing import Any

import pytest
import torch
from kernel_cases import dropout_by_hand, gradients, reversible
from torch import Tensor
from torch.func import jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from splitstep.fields import dropout as dropped
from splitstep.kernels import dropout
from splitstep.kernels.dropout import Fused, formula, keep


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_mask_does_not_depend_on_the_type_of_its_seed(dtype: torch.dtype) -> None:
    x = torch.ones(7, 9, dtype=dtype)
    found = [dropped(x, 0.3, torch.tensor(5, dtype=kind), 2) for kind in (torch.int32, torch.int64)]
    assert torch.equal(*found)
    assert torch.equal(found[0], keep(torch.tensor(5), 2, (7, 9), 0.3).to(dtype) * (1 / 0.7))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The salts of all calls of a kernel that the CPU seems to have."""
    salts: list[int] = []
    made = dropout_by_hand(salts)
    monkeypatch.setattr(dropout, "kernel", lambda kind: made)
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
    assert len(calls) == 7  # each of these by the kernel
    many = torch.randn(5, 4, 6)
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
        patch.setattr(dropout, "fusible", lambda x, seed: False)
        expected = gradients(network, network, half)
    assert all(map(torch.equal, found, expected))
