"""States captured in a pass of the model itself are those of its scheme run on its fields."""

from typing import Any

import pytest
import torch
from test_flow import inputs_of, made
from tiny import tiny as ours
from torch import Tensor
from zoo import FAST, schemes, tiny

import splitstep as ss
from splitstep.flows import Capture, Flow, state_name
from splitstep.flows.sums import distance
from splitstep.opening import load


def by_events(flow: Flow, inputs: Any, substeps: int = 1) -> dict[tuple[str, int], Tensor]:
    """The oracle: every state that `integrate` passes through."""
    found: dict[tuple[str, int], Tensor] = {}

    def see(event: ss.Event) -> None:
        for side, x in (("before", event.x), ("after", event.x_after)):
            found[state_name(event, flow.scheme, side, substeps)[:2]] = x.clone()  # pyright: ignore[reportArgumentType]

    with torch.no_grad():
        ss.integrate(flow.scheme, flow.steps, flow.embed(inputs), flow.context(inputs), see)
    return found


def agree(found: dict[tuple[str, int], Tensor], wanted: dict[tuple[str, int], Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for key, x in wanted.items():
        assert distance(found[key], x) < 1e-6, key


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in schemes()]
)
@pytest.mark.filterwarnings("ignore")  # of other people's code
def test_states_are_those_of_the_replay(name: str) -> None:
    from test_zoo import inputs_of as inputs_for

    model = tiny(name, 0.2)
    inputs = inputs_for(model, name)
    flow = load(model, inputs)
    capture, wanted = Capture(flow), by_events(flow, inputs)
    for _ in range(2):  # the first pass learns
        found = capture(inputs)
        agree(found.states, wanted)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5"])
def test_what_was_learnt_serves_inputs_of_other_shapes(name: str) -> None:
    model = made(name)
    flow = load(model)
    capture = Capture(flow)
    capture(inputs_of(model))
    routes = dict(flow.routes.known)
    inputs = inputs_of(model, 2, 9)
    found = capture(inputs)
    agree(found.states, by_events(flow, inputs))
    assert all(flow.routes.known[layer] is route for layer, route in routes.items())
    with torch.no_grad():
        torch.testing.assert_close(found.output.logits, model(**inputs).logits, rtol=0, atol=0)


def test_a_block_that_runs_other_operations_is_learnt_anew() -> None:
    model = made("gpt2")
    flow, inputs = load(model), inputs_of(model)
    capture = Capture(flow)
    capture(inputs["input_ids"])
    model.set_attn_implementation("eager")
    agree(capture(inputs).states, by_events(flow, inputs))


def test_states_are_those_that_hooks_find() -> None:
    model = made("llama")
    flow, inputs = load(model), inputs_of(model)
    capture, seen = Capture(flow), list[Tensor]()
    capture(inputs)
    found = capture(inputs).states
    for layer in model.model.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with torch.no_grad():
        model(**inputs)
    for number, x in enumerate(seen):
        torch.testing.assert_close(found["resid_mid" if number % 2 else "resid_pre", number // 2], x, rtol=0, atol=0)


def test_only_the_layers_that_were_asked_for_are_kept() -> None:
    model = made("llama")
    flow, inputs = load(model), inputs_of(model)
    wanted = by_events(flow, inputs)
    for layers in ([1], [0, 2]):
        capture = Capture(flow, layers=layers)
        capture(inputs)
        agree(capture(inputs).states, {key: x for key, x in wanted.items() if key[1] in layers})
    with pytest.raises(ValueError, match=r"there is no layer 3: model\.layers has layers 0 to 2"):
        Capture(flow, layers=[3])


def test_an_encoder_is_captured_by_the_name_of_its_stack() -> None:
    model = made("t5")
    flow, inputs = load(model), inputs_of(model)
    capture = Capture(flow, "encoder.block")
    capture(inputs)
    found = capture(inputs).states
    with torch.no_grad():
        hidden = model(**inputs, output_hidden_states=True).encoder_hidden_states
    for layer in (0, 1):
        torch.testing.assert_close(found["resid_pre", layer], hidden[layer])
    with pytest.raises(ValueError, match=r"there is no stack 'encoder': the model has encoder\.block, decoder\.block"):
        Capture(flow, "encoder")


@pytest.mark.parametrize("scheme", ["macaron", "lie"])
def test_our_own_models_are_captured_too(scheme: str) -> None:
    model = ours("causal", scheme, vocab_size=30, substeps=2)
    flow, inputs = load(model), inputs_of(model)
    agree(Capture(flow)(inputs).states, by_events(flow, inputs, 2))
