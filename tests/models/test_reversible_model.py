"""The reversible row as a network of its own: 24 layers of attention and feed-forward, at initialisation, step 1.

It rebuilds its states bit for bit, with dropout and under bf16 autocast too; its gradients are those of plain
backpropagation; what it holds for the backward pass does not grow with depth.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import splitstep as ss
from splitstep import reversible
from splitstep.fields import Context

LAYERS, B, T, D = 24, 2, 16, 32
RATES = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
CASES = pytest.mark.parametrize("dropped", [False, True], ids=["", "dropout"])


@pytest.fixture(autouse=True)
def _no_onednn() -> Iterator[None]:
    """Some virtual machines report matrix extensions that they do not allow; oneDNN's bf16 products then crash."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Intel GPUs
        before = torch.backends.mkldnn.set_flags(False)
        yield
        torch.backends.mkldnn.set_flags(*before)


def model(layers: int = LAYERS, scheme: str = "reversible", **more: Any) -> ss.SplitstepForCausalLM:
    torch.manual_seed(0)
    shape: dict[str, Any] = {"width": D, "heads": 4, "ffn": 2 * D, "vocab_size": 64, "positions": "rotary"}
    config = ss.CausalConfig(scheme=scheme, layers=layers, **(shape | more))
    return ss.SplitstepForCausalLM(config).train()


def start(length: int = T) -> Tensor:
    return torch.randn(B, length, D, generator=torch.Generator().manual_seed(1)).requires_grad_()


def context(dropped: bool) -> Context:
    return Context(causal=True, seed=torch.tensor(7) if dropped else None)


def plainly(stack: ss.Stack, x: Tensor, context: Context) -> Tensor:
    """The same training-mode computation, every state stored."""
    a, b = ss.integrate(stack.scheme, stack.steps(), (x, x), context)
    return (a + b) / 2


def distance(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


def worst(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    return max(map(distance, found, expected))


@contextmanager
def recorded() -> Iterator[list[Tensor]]:
    """Every state that a field reads, in order; a forward pass adds its two results."""
    states: list[Tensor] = []
    plain = reversible.from_grid

    def from_grid(n: Tensor, dtype: torch.dtype) -> Tensor:
        states.append(plain(n, dtype))
        return states[-1].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reversible, "from_grid", from_grid)
        yield states


@CASES
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bf16"])
def test_states_are_rebuilt_bit_for_bit(autocast: bool, dropped: bool) -> None:
    stack = model(init="xavier", **(RATES if dropped else {})).body.stack
    x = start()
    with recorded() as states:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            y = stack(x, context(dropped))
        forward = states[:-2]
        states.clear()
        y.square().sum().backward()
    rebuilt = states[::-1]
    assert len(forward) == len(rebuilt) == 3 * LAYERS
    assert max(map(distance, rebuilt, forward)) == 0.0  # 1e-5 was asked for
    assert distance(forward[-1], x) > 0.1  # and the states did move
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        plain = plainly(stack, x, context(dropped))
    assert distance(y, plain) < (1e-2 if autocast else 1e-6)


@CASES
def test_gradients_are_those_of_plain_backpropagation(dropped: bool) -> None:
    """Half-precision gradients differ by their rounding; the float32 ones say which are how far off."""
    stack = model(layers=12, **(RATES if dropped else {})).body.stack
    x, g = start(), torch.randn(B, T, D, generator=torch.Generator().manual_seed(2))
    wanted = [x, *stack.parameters()]
    exact = torch.autograd.grad(plainly(stack, x, context(dropped)), wanted, g)
    assert worst(torch.autograd.grad(stack(x, context(dropped)), wanted, g), exact) < 1e-5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = stack(x, context(dropped)), plainly(stack, x, context(dropped))
    found, plain = (torch.autograd.grad(y, wanted, g) for y in (ours, theirs))
    errors = torch.tensor([[distance(u, v) for u, v in zip(grads, exact, strict=True)] for grads in (found, plain)])
    assert errors[0].mean() < 1.1 * errors[1].mean()
    assert errors[0].max() < 0.1


@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_whole_models_train_alike(kind: str) -> None:
    """Loss and gradients of the model, embedding and head included, against the observed run: a watched stack
    integrates plainly."""
    network = translator(torch.float32, **RATES) if kind == "translation" else model(**RATES)
    ids = torch.randint(3, 40, (B, T), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(T) >= torch.tensor([[0], [5]])).long()
    results = []
    for observe in (None, lambda event: None):
        network.zero_grad()
        out = network(ids, mask, labels=ids, dropout_seed=torch.tensor(5), observe=observe)
        out.loss.backward()
        results.append((out.loss.detach(), *(p.grad.clone() for p in network.parameters())))
    assert worst(*results) < 1e-5


def held(stack: ss.Stack, autocast: bool) -> int:
    """Bytes of the storages that the stack's graph saves, parameters and input apart."""
    x = start()
    own = {p.untyped_storage().data_ptr() for p in [x, *stack.parameters()]}
    saved: dict[int, int] = {}
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)  # a freed storage's address may be used again
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with (
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        y = stack(x, context(True))
    assert y.requires_grad
    return sum(size for place, size in saved.items() if place not in own)


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bf16"])
def test_bytes_held_for_the_backward_pass_are_flat_in_depth(autocast: bool) -> None:
    shallow, deep = (held(model(n, **RATES).body.stack, autocast) for n in (6, LAYERS))
    assert 0 < deep < 1.3 * shallow
    pair = 2 * B * T * D * 8
    assert deep <= 2 * pair
    lie = [held(model(n, "lie", **RATES).body.stack, autocast) for n in (6, LAYERS)]
    assert lie[1] > 3.5 * lie[0]  # the measure sees what a plain stack holds
    assert deep < lie[1] / 25


def translator(dtype: torch.dtype, **more: Any) -> ss.SplitstepForTranslation:
    torch.manual_seed(0)
    config = ss.TranslationConfig(
        scheme="reversible", layers=2, decoder_layers=6, width=32, heads=4, ffn=48, vocab_size=40, **more
    )
    return ss.SplitstepForTranslation(config).to(dtype).train()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_in_half_precision_train_too(dtype: torch.dtype) -> None:
    stack = model(2).body.stack.to(dtype)
    x = (100 * start()).detach().to(dtype).requires_grad_()
    y = stack(x, context(False))
    assert y.dtype == dtype
    assert distance(y.float(), plainly(stack, x, context(False)).float()) < 0.02
    y.sum().backward()
    assert x.grad.isfinite().all()
