"""Many architectures, no adapters: each is the scheme that its authors wrote, and its fields are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import APART, FAST, GIVEN, OTHERS, schemes, tiny

import splitstep as ss
from splitstep.pretrained import load
from splitstep.pretrained.blocks import exchanged, first_float
from splitstep.pretrained.examples import made_up
from splitstep.pretrained.traced import TracedFlow

SCHEMES = schemes()


def inputs_of(model: Any, name: str) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(5)
    return GIVEN[name](lambda *size: torch.randn(*size, generator=random)) if name in GIVEN else made_up(model, name)


@contextmanager
def pushed(flow: TracedFlow, push: Tensor) -> Iterator[None]:
    """The model itself, with something added to the state before its second block."""
    chain, calls = flow.chains[flow.main], iter(range(1000))

    def hook(module: Any, args: Any, kwargs: Any) -> Any:
        x = chain.state(args, kwargs)
        return exchanged((args, kwargs), x, x + push) if module is chain.modules[1] and next(calls) == again else None

    again = int(chain.modules[0] is chain.modules[1])  # a shared block is called before
    with chain.modules[1].register_forward_pre_hook(hook, with_kwargs=True):
        yield


def pushed_logits(flow: TracedFlow, inputs: Any, push: Tensor) -> Tensor:
    """The same by the scheme and the fields."""
    context = flow.context(inputs)
    x = ss.integrate(flow.scheme, flow.steps[:1], flow.embed(inputs), context) + push
    return flow.head(ss.integrate(flow.scheme, flow.steps[1:], x, context), context)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in SCHEMES]
)
@pytest.mark.filterwarnings("ignore")  # of other people's code
def test_an_architecture_is_its_scheme_here_and_at_other_states(name: str) -> None:
    model = tiny(name)
    inputs = inputs_of(model, name)
    flow = load(model, inputs)
    assert isinstance(flow, TracedFlow)
    assert " | ".join(str(stack.scheme) for stack in flow.stacks.values()) == SCHEMES[name]
    assert any("whole layers" in note for note in flow.notes) == (SCHEMES[name] == "W")
    with torch.no_grad():
        x = flow.embed(inputs)
        for size in (0.0, 1e-3):
            push = size * x.std() * torch.randn(x.shape, generator=torch.Generator().manual_seed(6))
            with pushed(flow, push):
                oracle = first_float(flow.run(inputs))
            assert oracle is not None
            found = pushed_logits(flow, inputs, push)
            assert float((found - oracle).norm() / oracle.norm()) < 1e-5


def test_the_zoo_is_large_enough() -> None:
    assert len(SCHEMES) >= 80
    assert sum(len(names.split()) for names in APART.values()) >= 75
    assert set(FAST) <= SCHEMES.keys()
    assert all(reason for _, reason in OTHERS.values())
