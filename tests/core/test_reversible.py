"""Backpropagation that rebuilds states: the gradients of plain backpropagation, in memory that is flat in depth. Of
small fields, and of the reversible row as a network of its own, with dropout and under autocast too."""

import gc
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import splitstep as ss
from splitstep import reversible
from splitstep.fields import Context

DEPTH = 48
WIDTH = 16
TEXTS = ["reversible", "a:A b:F", "b:F/2 a:A b:F/2 @rk4", "b:(A+F0)/2 a:A+F b:(A+F1)/2 @midpoint"]
RATES = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
NETWORKS = {"network": {}, "network with dropout": RATES}
HALF = pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bf16"])


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


def model(layers: int, scheme: str = "reversible", **more: Any) -> ss.SplitstepForCausalLM:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"width": WIDTH, "heads": 4, "ffn": 2 * WIDTH, "vocab_size": 64, "positions": "rotary"}
    return ss.SplitstepForCausalLM(ss.CausalConfig(scheme=scheme, layers=layers, **shape, **more)).train()


def either(case: str, layers: int) -> tuple[ss.Stack, Any]:
    """A stack in training mode, of small fields or of attention and feed-forward, and its context."""
    if case not in NETWORKS:
        return network(case, layers).train(), None
    context = Context(causal=True, seed=torch.tensor(7) if NETWORKS[case] else None)
    return model(layers, init="xavier", **NETWORKS[case]).body.stack, context


def inputs(tokens: int = 5) -> Tensor:
    return torch.randn(2, tokens, WIDTH, generator=torch.Generator().manual_seed(1)).requires_grad_()


def half(autocast: bool) -> Any:
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast)


def gradients(
    stack: ss.Stack, context: Any = None, tensors: tuple[Tensor, ...] = (), plain: bool = False, autocast: bool = False
) -> list[Tensor]:
    """The result and the gradients of x, of the weights and of further tensors. A stack that is watched integrates in
    the plain way."""
    stack.zero_grad()
    x = inputs()
    with half(autocast):
        y = stack(x, context, (lambda event: None) if plain else None)
    wanted = [x, *(p for p in stack.parameters() if p.requires_grad), *tensors]
    found = torch.autograd.grad(y.square().sum() + y.sum(), wanted, allow_unused=True)
    return [y.detach(), *(g for g in found if g is not None)]


def distances(found: list[Tensor], expected: list[Tensor]) -> Tensor:
    """The relative distance of each tensor from the expected one."""
    return torch.stack([(u.float() - v).norm() / v.norm() for u, v in zip(found, expected, strict=True)])


def distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest of them."""
    return distances(found, expected).max().item()


@pytest.mark.parametrize("text", [*TEXTS, *NETWORKS, "1/2(a:A b:F) + 1/2(b:F a:A)"])
def test_gradients_are_those_of_plain_backpropagation(text: str) -> None:
    """Results are, too, also without a gradient. Half-precision gradients differ by their rounding; the float32 ones
    say which are how far off."""
    stack, context = either(text, 12)
    exact = gradients(stack, context, plain=True)
    assert distance(gradients(stack, context), exact) < 1e-5
    with torch.no_grad():
        assert distance([stack(inputs(), context)], exact[:1]) < 1e-5
    if text in NETWORKS:
        found, plain = (distances(gradients(stack, context, (), way, True), exact) for way in (False, True))
        assert found[1:].mean() < 1.1 * plain[1:].mean()
        assert found.max() < 0.1
    else:
        assert distance(gradients(stack.eval(), context), exact) < 1e-5


@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_whole_models_train_alike(kind: str) -> None:
    """Loss and gradients of the model, embedding and head included, against the watched run."""
    sizes: dict[str, Any] = {"layers": 2, "decoder_layers": 6, "width": 32, "heads": 4, "ffn": 48, "vocab_size": 64}
    translator = ss.SplitstepForTranslation(ss.TranslationConfig(scheme="reversible", **sizes, **RATES)).train()
    whole = translator if kind == "translation" else model(24, **RATES)
    ids = torch.randint(3, 40, (2, 16), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(16) >= torch.tensor([[0], [5]])).long()
    results = []
    for observe in (None, lambda event: None):
        whole.zero_grad()
        out = whole(ids, mask, labels=ids, dropout_seed=torch.tensor(5), observe=observe)
        out.loss.backward()
        results.append([out.loss.detach(), *(p.grad.clone() for p in whole.parameters())])
    assert distance(*results) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_in_half_precision_train_too(dtype: torch.dtype) -> None:
    stack = model(2).body.stack.to(dtype)
    x = (100 * inputs()).detach().to(dtype).requires_grad_()
    y, plain = (stack(x, Context(causal=True), observe) for observe in (None, lambda event: None))
    assert y.dtype == dtype
    assert distance([y], [plain.float()]) < 0.02
    y.sum().backward()
    assert x.grad.isfinite().all()


def test_gradients_flow_into_the_context() -> None:
    stack = network()
    memory = torch.randn(WIDTH, generator=torch.Generator().manual_seed(2)).requires_grad_()

    def context() -> dict[str, Any]:
        return {"memory": 2 * memory, "mask": torch.ones(3, dtype=torch.bool), "note": "any value may travel along"}

    found, expected = gradients(stack.train(), context(), (memory,)), gradients(stack.eval(), context(), (memory,))
    assert found[-1].shape == (WIDTH,)
    assert found[-1].norm() > 0
    assert distance(found, expected) < 1e-5


def test_weights_shared_by_layers_and_substeps_and_frozen_weights() -> None:
    torch.manual_seed(0)
    shared = Normed()
    fields = [lambda name, layer: shared if name == "A" else Normed(), lambda name, layer: Normed()]
    stacks = [ss.Stack(ss.scheme("reversible"), 4, make, substeps=k) for make, k in zip(fields, (1, 3), strict=True)]
    for stack in stacks:
        assert distance(gradients(stack.train()), gradients(stack.eval())) < 1e-5
    for parameter in stacks[0].layers[3].parameters():
        parameter.requires_grad_(False)
    shared.requires_grad_(True)
    assert distance(gradients(stacks[0].train()), gradients(stacks[0].eval())) < 1e-5
    stacks[0].train()(inputs()).sum().backward()
    assert {p.grad is not None for p in stacks[0].parameters()} == {True, False}
    assert all((p.grad is None) == (not p.requires_grad) for p in stacks[0].parameters())


@contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Every state that the fields read, as the integers of the grid."""
    states: list[Tensor] = []
    plain = reversible.from_grid

    def from_grid(n: Tensor, dtype: torch.dtype) -> Tensor:
        states.append(n.clone())
        return plain(n, dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reversible, "from_grid", from_grid)
        yield states


@HALF
@pytest.mark.parametrize("text", [*TEXTS, *NETWORKS])
def test_states_are_rebuilt_bit_for_bit(text: str, autocast: bool) -> None:
    (stack, context), x = either(text, 24), inputs()
    with recorded() as states:
        with half(autocast):
            y = stack(x, context)
        forward = states[:-2]  # the last two are the results
        states.clear()
        y.sum().backward()
    assert y.dtype == torch.float32
    assert len(forward) == len(states) == 24 * len(stack.scheme.plan[0][1])
    assert all(map(torch.equal, forward, reversed(states)))
    assert distance([forward[-1] / reversible.GRID], [x.detach()]) > 0.1  # and the states did move
    with half(autocast):
        plain = stack(x, context, lambda event: None)
    assert distance([y.detach()], [plain.detach()]) < (1e-2 if autocast else 1e-6)


def saved_bytes(layers: int, scheme: str, autocast: bool) -> int:
    """Bytes of the storages that a network's graph saves for the backward pass, parameters and input apart."""
    stack, x = model(layers, scheme, **RATES).body.stack, inputs(16)
    own = {p.untyped_storage().data_ptr() for p in [x, *stack.parameters()]}
    saved: dict[int, int] = {}
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)  # a freed storage's address may be used again
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with half(autocast), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = stack(x, Context(causal=True, seed=torch.tensor(7)))
    assert y.requires_grad
    return sum(size for place, size in saved.items() if place not in own)


def held_bytes(stack: ss.Stack) -> int:
    """Bytes of all tensors that came alive in the forward pass and still are."""
    before, x = alive(), inputs()
    y = stack(x)
    after = alive()
    y.sum().backward()
    return sum(size for place, size in after.items() if place not in before)


def alive() -> dict[int, int]:
    gc.collect()
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # left by other tests; such have no storage of their own
    tensors = [o for o in gc.get_objects() if type(o) is Tensor and not wrapped(o)]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


@HALF
def test_bytes_held_for_the_backward_pass_are_flat_in_depth(autocast: bool) -> None:
    """In proportion to depth in plain backpropagation, so the measure sees what it should."""
    shallow, deep = (saved_bytes(n, "reversible", autocast) for n in (6, 24))
    assert 0 < deep < 1.3 * shallow
    assert deep <= 2 * (2 * 2 * 16 * WIDTH * 8)  # two pairs
    lie = [saved_bytes(n, "lie", autocast) for n in (6, 24)]
    assert lie[1] > 3.5 * lie[0]
    assert deep < lie[1] / 25
    assert 0 < held_bytes(network(layers=DEPTH)) < 1.3 * held_bytes(network(layers=12))


def test_second_derivatives_are_refused_in_training_rather_than_wrong() -> None:
    """Also of y.sum(), whose gradient depends on nothing: a penalty on it would have been without effect."""
    for loss in (torch.sum, lambda y: y.square().sum()):
        x = inputs()
        with pytest.raises(RuntimeError, match=r"no second derivatives: create_graph is True.*evaluation mode"):
            torch.autograd.grad(loss(network(layers=2).train()(x)), x, create_graph=True)


def impure(change: Any) -> ss.Stack:
    """Four layers, the field F of the second changed."""
    stack = network(layers=4).train()
    stack.layers[1]["F"] = change(stack.layers[1]["F"])  # pyright: ignore
    return stack


class Changed(nn.Module):
    """A field with something done to its result."""

    def __init__(self, field: nn.Module, change: Any) -> None:
        super().__init__()
        self.field, self.change = field, change

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.change(self.field(t, x, context))


calls = itertools.count()
IMPURE: dict[str, Any] = {
    "dropout": nn.Dropout(0.1),
    "noise": lambda y: y + 1e-3 * torch.randn_like(y),
    "shuffled tokens": lambda y: y[:, torch.randperm(y.shape[1])],
    "counted calls": lambda y: y * (1 + next(calls) % 7),
}


@pytest.mark.parametrize("kind", IMPURE)
def test_fields_that_are_not_pure_are_noticed_rather_than_differentiated_wrongly(kind: str) -> None:
    torch.manual_seed(1)
    stack = impure(lambda field: Changed(field, IMPURE[kind]))
    with pytest.raises(RuntimeError, match="not rebuilt, so a field is not a pure function"):
        stack(inputs()).sum().backward()
    stack.eval()(inputs()).sum().backward()  # states that are stored need no pure fields


class Hidden(nn.Module):
    """A field that reads a tensor that nobody knows of."""

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self.tensors = tensors

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return x * (context.scale if context else self.tensors[0])


class Opaque:
    """A context that torch cannot look into."""

    def __init__(self, scale: Tensor) -> None:
        self.scale = scale


def test_a_gradient_that_would_be_missing_is_an_error() -> None:
    w = torch.full((WIDTH,), 0.1).requires_grad_()
    message = "Field F of step 1 reads a tensor that requires a gradient and would not get one: register it"
    for make in (lambda: w, lambda: 2 * w):
        for given in (None, Opaque(w)):
            field = Hidden([make()])
            fields = {("F", 1): field}
            stack = ss.Stack(ss.scheme("a:A b:F"), 2, lambda *place, fields=fields: fields.get(place) or Pure())
            with pytest.raises(RuntimeError, match=message):
                stack.train()(inputs(), given).sum().backward()
            field.tensors = [make()]
            [g] = torch.autograd.grad(stack.eval()(inputs(), given).sum(), w)
            assert g.norm() > 0
            with torch.no_grad():
                stack.train()(inputs(), given)


class Pure(nn.Module):
    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return torch.sin(x + t)


def test_a_time_that_requires_a_gradient_is_refused() -> None:
    stack, t = network(layers=2), torch.tensor(0.5, requires_grad=True)
    with pytest.raises(ValueError, match=r"no gradient for the time t: pass t.detach\(\)"):
        stack.train()(inputs(), t=t)
    with torch.no_grad():
        assert torch.allclose(stack(inputs(), t=t), stack(inputs(), t=0.5))
    [g] = torch.autograd.grad(stack.eval()(inputs(), t=t).sum(), t)
    assert g.abs() > 0


def test_an_empty_batch_trains() -> None:
    stack = network(layers=2).train()
    x = inputs().detach()[:0].requires_grad_()
    y = stack(x)
    y.sum().backward()
    assert y.shape == (0, 5, WIDTH)
    assert all(p.grad is not None and not p.grad.any() for p in stack.parameters())


class Constant(nn.Module):
    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return torch.full_like(x, 2.0**29)


@pytest.mark.parametrize(("layers", "good"), [(1, True), (3, False), (40, False)])
def test_a_half_that_is_never_read_may_not_leave_the_grid_either(layers: int, good: bool) -> None:
    stack = ss.Stack(ss.scheme("b:A"), layers, lambda name, layer: Constant()).train()
    y = stack(torch.zeros(2, WIDTH))
    assert torch.equal(y, torch.full_like(y, 2.0**28)) if good else y.isnan().all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e12, 2.0**30])
def test_a_diverged_pass_has_a_backward_pass(bad: float) -> None:
    stack = network(layers=4).train()
    with torch.no_grad():
        stack.layers[2]["A"].down.bias[3] = bad  # pyright: ignore
    y = stack(inputs())
    y.sum().backward()
    assert y.isnan().all()


def test_weights_that_change_before_the_backward_pass_are_noticed() -> None:
    stack = network(layers=2).train()
    y = stack(inputs())
    with torch.no_grad():
        stack.layers[0]["A"].down.weight.mul_(2)  # pyright: ignore
    with pytest.raises(RuntimeError, match="changed in place between forward and backward"):
        y.sum().backward()
