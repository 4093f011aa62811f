"""Many architectures, no adapters: each is the scheme that its authors wrote, and its fields are its own."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import APART, FAINT, FAST, GIVEN, NAMED, OTHERS, REFUSED, UNSHOWN, schemes, tiny
from zoo_table import PAGE, page

import splitstep as ss
from splitstep.flows import Capture
from splitstep.flows.blocks import exchanged, first_float, intercepted
from splitstep.flows.examples import made_up, turned
from splitstep.flows.foreign import ForeignFlow
from splitstep.flows.sums import distance
from splitstep.opening import load

SCHEMES = schemes()
NIGHTLY = pytest.mark.nightly
EXACT = 1e-5


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


def zoo(names: Iterable[str]) -> list[Any]:
    """The models as cases of a test: some always, some in `make test`, all in `make nightly`."""
    marks = {name: [] if name in FAST else [pytest.mark.slow] if name in NAMED else [NIGHTLY] for name in names}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


@pytest.mark.parametrize("name", zoo(SCHEMES))
@pytest.mark.filterwarnings("ignore")  # of other people's code
def test_an_architecture_is_its_scheme_here_and_at_other_states(name: str) -> None:
    check(name, 0.2)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(SCHEMES.keys() - FAINT))
@pytest.mark.filterwarnings("ignore")
def test_it_is_with_small_weights_too(name: str) -> None:
    check(name, 0.02)


def check(name: str, std: float) -> None:
    model = tiny(name, std)
    inputs = inputs_of(model, name)
    flow = load(model, inputs)
    assert isinstance(flow, ForeignFlow)
    assert " | ".join(str(stack.scheme) for stack in flow.stacks.values()) == SCHEMES[name]
    assert any("whole layers" in note for note in flow.notes) == (SCHEMES[name] == "W")
    with torch.no_grad():
        for given in (turned(inputs), inputs):
            x, rest = flow.embed(given), output_of(model, given)
            assert distance(pushed_logits(flow, given, torch.zeros_like(x)), rest) < EXACT / 10
        assert any(agrees_when_pushed(flow, inputs, size * x.std(), rest) for size in (1e-3, 1e-4, 1e-5))


def output_of(model: Any, inputs: Any) -> Tensor:
    """What the model itself returns, without anything of ours around it."""
    found = first_float(plain(model, inputs))
    assert found is not None
    return found


def plain(model: Any, inputs: Any, **more: Any) -> Any:
    named = {"use_cache": False} if "use_cache" in signature(model.forward).parameters else {}
    torch.manual_seed(0)  # of ViTMAE's masks, as a flow says
    with torch.no_grad():
        return model(**inputs, **named, **more)


@pytest.mark.parametrize("name", zoo(SCHEMES))
@pytest.mark.filterwarnings("ignore")
def test_states_are_the_hidden_states_that_the_model_shows(name: str) -> None:
    model = tiny(name, 0.2)
    inputs = inputs_of(model, name)
    flow = load(model, inputs)
    assert isinstance(flow, ForeignFlow)
    output = plain(model, inputs, **({} if UNSHOWN.get(name) == "no states" else {"output_hidden_states": True}))
    lists = [getattr(output, f"{side}hidden_states", None) or () for side in ("", "encoder_", "decoder_")]
    shown = [one for one in lists if all(isinstance(x, Tensor) for x in one)]
    agree = [any(shows(flow, stack, inputs, one) for one in shown) for stack in flow.stacks]
    assert all(agree) == (name not in UNSHOWN), agree


def shows(flow: ForeignFlow, stack: str, inputs: Any, hidden: Sequence[Tensor]) -> bool:
    """Whether a list begins with the states before the blocks of a stack; Mamba's begins with the second."""
    found, layout = Capture(flow, stack)(inputs).states, flow.chains[stack].layout
    states = [found["resid_pre", layer] for layer in range(len(flow.stacks[stack].layers))]
    seen = [x if x.dim() == 3 else layout.seen(x) for x in hidden]
    return any(
        len(seen) >= len(part)
        and all(x.shape == y.shape and distance(x, y) < EXACT for x, y in zip(part, seen, strict=False))
        for part in (states, states[1:])
    )


@pytest.mark.parametrize("name", zoo(SCHEMES))
@pytest.mark.filterwarnings("ignore")
def test_a_token_of_an_example_is_one_row_of_the_state(name: str) -> None:
    model = tiny(name, 0.2)
    inputs = inputs_of(model, name)
    flow = load(model, inputs)
    main = next((one for one in ("decoder_input_ids", "input_ids") if one in inputs), next(iter(inputs)))
    x, before = inputs[main], flow.embed(inputs)

    def changed(place: Any) -> Tensor:
        moved = x.clone()
        moved[place] = moved[place] + 1 if x.is_floating_point() else (moved[place] + 3) % 37 + 2
        return (flow.embed({**inputs, main: moved}) != before).any(-1)

    for row in range(len(x)):
        assert changed(row).any(1).tolist() == [one == row for one in range(len(x))]
    if not x.is_floating_point() and name != "FunnelForMaskedLM":  # its last stack begins with what others have mixed
        [first, last] = [changed((1, place)).nonzero().tolist() for place in (0, -1)]
        assert all(row == 1 for row, _ in first + last)
        assert max(first)[1] < min(last)[1]
        assert len(first) == len(last) == (2 if name == "MobileBertForMaskedLM" else 1)  # it joins neighbours


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


@pytest.mark.parametrize("name", zoo(REFUSED))
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_one_flow_is_refused(name: str) -> None:
    model = tiny(name, 0.2)
    with pytest.raises(ValueError, match=REFUSED[name][0]):
        load(model, inputs_of(model, name))


def test_the_guide_has_the_table_of_this_zoo() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "write it: python tests/helpers/zoo_table.py"


def test_the_zoo_is_large_enough() -> None:
    assert len(SCHEMES) >= 250
    assert sum(len(names.split()) for names in APART.values()) >= 240
    assert {*FAST, *UNSHOWN} <= SCHEMES.keys()
    assert {*NAMED} <= SCHEMES.keys() | REFUSED.keys()
    assert all(reason for _, reason in (OTHERS | REFUSED).values())
