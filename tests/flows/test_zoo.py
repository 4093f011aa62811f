"""Many architectures, no adapters: each is the scheme that its authors wrote, and its fields are its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import APART, FAST, GIVEN, OTHERS, REFUSED, schemes, tiny

import splitstep as ss
from splitstep.flows.blocks import exchanged, first_float, intercepted
from splitstep.flows.examples import made_up, turned
from splitstep.flows.foreign import ForeignFlow
from splitstep.flows.sums import distance
from splitstep.opening import load

SCHEMES = schemes()


def inputs_of(model: Any, name: str) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(5)
    return GIVEN[name](lambda *size: torch.randn(*size, generator=random)) if name in GIVEN else made_up(model, name)


@contextmanager
def pushed(flow: ForeignFlow, push: Tensor) -> Iterator[None]:
    """The model itself, with something added to the state before its second block."""
    chain, calls = flow.chains[flow.main], iter(range(1000))

    def block(module: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        x = chain.state(args, kwargs)
        if next(calls) == again:
            args, kwargs = exchanged((args, kwargs), x, x + chain.layout.own(push, x.shape))
        return forward(*args, **kwargs)

    again = int(chain.modules[0] is chain.modules[1])  # a shared block is called before
    with intercepted(chain.modules[1:2], block):
        yield


def pushed_logits(flow: ForeignFlow, inputs: Any, push: Tensor) -> Tensor:
    """The same by the scheme and the fields."""
    context = flow.context(inputs)
    x = ss.integrate(flow.scheme, flow.steps[:1], flow.embed(inputs), context) + push
    return flow.head(ss.integrate(flow.scheme, flow.steps[1:], x, context), context)


@pytest.mark.parametrize("std", [0.2, pytest.param(0.02, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in SCHEMES]
)
@pytest.mark.filterwarnings("ignore")  # of other people's code
def test_an_architecture_is_its_scheme_here_and_at_other_states(name: str, std: float) -> None:
    model = tiny(name, std)
    inputs = inputs_of(model, name)
    flow = load(model, inputs)
    assert isinstance(flow, ForeignFlow)
    assert " | ".join(str(stack.scheme) for stack in flow.stacks.values()) == SCHEMES[name]
    assert any("whole layers" in note for note in flow.notes) == (SCHEMES[name] == "W")
    with torch.no_grad():
        for given in (turned(inputs), inputs):
            x, rest = flow.embed(given), first_float(flow.call(given))
            assert rest is not None
            assert distance(pushed_logits(flow, given, torch.zeros_like(x)), rest) < 1e-5
        assert any(agrees_when_pushed(flow, inputs, size * x.std(), rest) for size in (1e-3, 1e-4))


def agrees_when_pushed(flow: ForeignFlow, inputs: Any, size: Tensor, rest: Tensor) -> bool:
    """Whether the fields follow the model to another state, judged by how far the push moves its output.

    The choice of experts is held as it was, so a push that changes it is no comparison; a smaller one is.
    """
    x = flow.embed(inputs)
    push = size * torch.randn(x.shape, generator=torch.Generator().manual_seed(6))
    with pushed(flow, push):
        oracle = first_float(flow.call(inputs))
    assert oracle is not None
    found = pushed_logits(flow, inputs, push)
    return distance(found, oracle) < 1e-5 and float((found - oracle).norm() / (oracle - rest).norm()) < 2e-2


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_one_flow_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[name][0]):
        load(tiny(name, 0.2))


def test_the_zoo_is_large_enough() -> None:
    assert len(SCHEMES) >= 80
    assert sum(len(names.split()) for names in APART.values()) >= 75
    assert set(FAST) <= SCHEMES.keys()
    assert all(reason for _, reason in (OTHERS | REFUSED).values())
