"""Backpropagation that rebuilds states: the gradients of plain backpropagation, in memory that is flat in depth."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import splitstep as ss
from splitstep import reversible

DEPTH = 48
WIDTH = 16
TEXTS = ["reversible", "a:A b:F", "b:F/2 a:A b:F/2 @rk4", "b:(A+F0)/2 a:A+F b:(A+F1)/2 @midpoint"]


class Normed(nn.Module):
    """A pre-norm field with time and, where it is given, a context: what a Transformer's layers look like from here."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        y = self.norm(x) + 0.1 * t / DEPTH
        return self.down(torch.nn.functional.gelu(self.up(y if context is None else y + context["memory"])))


def network(text: str = "reversible", layers: int = DEPTH) -> ss.Stack:
    torch.manual_seed(0)
    return ss.Stack(ss.scheme(text), layers, lambda name, layer: Normed())


def inputs() -> Tensor:
    return torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1)).requires_grad_()


def gradients(stack: ss.Stack, context: Any = None, tensors: tuple[Tensor, ...] = ()) -> list[Tensor]:
    """The result and the gradients of x, of the weights and of further tensors."""
    stack.zero_grad()
    x = inputs()
    y = stack(x, context)
    wanted = [x, *(p for p in stack.parameters() if p.requires_grad), *tensors]
    found = torch.autograd.grad(y.square().sum() + y.sum(), wanted, allow_unused=True)
    return [y.detach(), *(g for g in found if g is not None)]


def distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest relative distance between two lists of tensors."""
    return max(((u - v).norm() / v.norm()).item() for u, v in zip(found, expected, strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_gradients_are_those_of_plain_backpropagation(text: str) -> None:
    stack = network(text)
    assert distance(gradients(stack.train()), gradients(stack.eval())) < 1e-5


def test_gradients_flow_into_the_context() -> None:
    stack = network()
    memory = torch.randn(WIDTH, generator=torch.Generator().manual_seed(2)).requires_grad_()

    def context() -> dict[str, Any]:
        return {"memory": 2 * memory, "mask": torch.ones(3, dtype=torch.bool), "note": "any value may travel along"}

    found, expected = gradients(stack.train(), context(), (memory,)), gradients(stack.eval(), context(), (memory,))
    assert found[-1].shape == (WIDTH,)
    assert found[-1].norm() > 0
    assert distance(found, expected) < 1e-5


def test_weights_shared_by_layers_and_frozen_weights() -> None:
    shared = Normed()
    stack = ss.Stack(ss.scheme("reversible"), 12, lambda name, layer: shared if name == "A" else Normed())
    for parameter in stack.layers[3].parameters():
        parameter.requires_grad_(False)
    shared.requires_grad_(True)
    assert distance(gradients(stack.train()), gradients(stack.eval())) < 1e-5
    stack.train()(inputs()).sum().backward()
    assert {p.grad is not None for p in stack.parameters()} == {True, False}
    assert all((p.grad is None) == (not p.requires_grad) for p in stack.parameters())


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tensor]]:
    """Every state that the fields read, as the integers of the grid."""
    states: list[Tensor] = []
    plain = reversible.from_grid

    def from_grid(n: Tensor, dtype: torch.dtype) -> Tensor:
        states.append(n.clone())
        return plain(n, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(reversible, "from_grid", from_grid)
        yield states


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_states_are_rebuilt_bit_for_bit(text: str, autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = network(text).train()
    with recorded(monkeypatch) as states:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            y = stack(inputs())
        forward = states[:-2]  # the last two are the results
        states.clear()
        y.sum().backward()
    assert y.dtype == torch.float32
    assert len(forward) == len(states) == DEPTH * len(stack.scheme.plan[0][1])
    assert all(map(torch.equal, forward, reversed(states)))


def held(stack: ss.Stack) -> tuple[int, int]:
    """Bytes that the graph saves, and bytes of all tensors that came alive in the forward pass and still are."""
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    x = inputs()
    before = alive()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = stack(x)
    after = alive()
    own = {p.untyped_storage().data_ptr() for p in stack.parameters()}
    y.sum().backward()
    return (
        sum(size for place, size in saved.items() if place not in own),
        sum(size for place, size in after.items() if place not in before),
    )


def alive() -> dict[int, int]:
    gc.collect()
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # left by other tests; such have no storage of their own
    tensors = [o for o in gc.get_objects() if type(o) is Tensor and not wrapped(o)]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def test_bytes_held_for_the_backward_pass_are_flat_in_depth() -> None:
    shallow, deep = held(network(layers=12).train()), held(network(layers=DEPTH).train())
    assert 0 < deep[0] < 1.3 * shallow[0]
    assert 0 < deep[1] < 1.3 * shallow[1]


def test_plain_backpropagation_holds_bytes_in_proportion_to_depth() -> None:
    """So the measure of the test above sees what it should."""
    assert held(network(layers=DEPTH).eval())[0] > 3 * held(network(layers=12).eval())[0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_field_that_diverges_gives_nan(bad: float) -> None:
    stack = network(layers=4).train()
    with torch.no_grad():
        stack.layers[2]["A"].down.bias[3] = bad  # pyright: ignore
    assert stack(inputs()).isnan().all()


def test_training_and_evaluation_agree() -> None:
    stack = network()
    x = inputs().detach()
    assert torch.allclose(stack.train()(x), stack.eval()(x), rtol=1e-5, atol=1e-5)
    assert not stack.train()(x.requires_grad_(False)).isnan().any()


def test_an_average_of_doubled_programs_trains_too() -> None:
    stack = network("1/2(a:A b:F) + 1/2(b:F a:A)", 4)
    assert distance(gradients(stack.train()), gradients(stack.eval())) == 0


def test_second_derivatives_are_refused_in_training_rather_than_wrong() -> None:
    x = inputs()
    [g] = torch.autograd.grad(network(layers=2).train()(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        g.square().sum().backward()


def test_weights_that_change_before_the_backward_pass_are_noticed() -> None:
    stack = network(layers=2).train()
    y = stack(inputs())
    with torch.no_grad():
        stack.layers[0]["A"].down.weight.mul_(2)  # pyright: ignore
    with pytest.raises(RuntimeError, match="changed in place between forward and backward"):
        y.sum().backward()
