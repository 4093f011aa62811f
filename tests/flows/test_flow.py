"""Somebody else's model as scheme, steps and fields: run by `integrate`, they are the model itself."""

from typing import Any

import pytest
import torch
import transformers as hf
from test_exact_or_refused import Block, Ordered
from tiny import tiny as ours
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from zoo import tiny

import splitstep as ss
from splitstep.flows import Flow, state_name
from splitstep.flows.sums import distance
from splitstep.opening import load

LLAMA = hf.LlamaConfig(
    vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=20,
)  # fmt: skip
MADE = {
    "gpt2": ("GPT2LMHeadModel", "A F"),
    "llama": ("LlamaForCausalLM", "A F"),  # heads share keys
    "bert": ("BertForMaskedLM", "A N F M"),
    "t5": ("T5ForConditionalGeneration", "A C F"),
    "classifier": ("GPT2ForSequenceClassification", "A F"),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(LLAMA).eval() if name == "llama" else tiny(MADE[name][0], 0.2)
    model.config.pad_token_id = 0
    return model


def inputs_of(model: Any, batch: int = 3, length: int = 7) -> dict[str, Tensor]:
    """Texts of another size than those that the model was traced with, one of them with padding."""
    ids = torch.randint(1, 30, (batch, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, -2:] = 0
    given = {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}
    return given | ({"decoder_input_ids": ids.flip(1)[:, :5]} if model.config.is_encoder_decoder else {})


def through(flow: Flow, inputs: Any, **other: Any) -> Tensor:
    scheme, steps = other.get("scheme", flow.scheme), other.get("steps", flow.steps)
    return flow.head(ss.integrate(scheme, steps, flow.embed(inputs), flow.context(inputs)))


@pytest.mark.parametrize("name", MADE)
def test_the_scheme_run_on_the_fields_gives_the_models_logits(name: str) -> None:
    model = made(name)
    flow = load(model)
    assert str(flow.scheme) == MADE[name][1]
    assert flow.notes == ()
    for inputs in (inputs_of(model), inputs_of(model, 2, 1)):
        with torch.no_grad():
            assert distance(through(flow, inputs), model(**inputs).logits) < 1e-5


def test_an_encoder_decoder_has_both_stacks() -> None:
    flow = load(made("t5"))
    assert [(name, str(stack.scheme)) for name, stack in flow.stacks.items()] == [
        ("encoder.block", "A F"), ("decoder.block", "A C F"),
    ]  # fmt: skip
    assert len(flow.steps) == 2


def test_steps_serve_other_inputs_and_a_context_keeps_its_own() -> None:
    model = made("llama")
    flow = load(model)
    steps, inputs, others = flow.steps, inputs_of(model), inputs_of(model, 2, 9)
    context, other = flow.context(inputs), flow.context(others)
    with torch.no_grad():
        for given, bound in ((inputs, context), (others, other)):
            x = ss.integrate(flow.scheme, steps, flow.embed(given), bound)
            assert distance(flow.head(x, bound), model(**given).logits) < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_fields_at_other_states_are_the_block_there(name: str) -> None:
    model = made(name)
    flow, ids = load(model), torch.arange(1, 9)[None]
    context = flow.context(ids)
    block = {"gpt2": lambda: model.transformer.h[1], "bert": lambda: model.bert.encoder.layer[1]}[name]()
    u = torch.randn(1, 8, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        result = block(u)
        oracle = result if isinstance(result, Tensor) else result[0]
        assert distance(ss.integrate(flow.scheme, flow.steps[1:2], u, context), oracle) < 1e-5


def test_derivatives_through_fields_are_the_blocks() -> None:
    model = made("gpt2")
    flow, ids = load(model), torch.arange(1, 6)[None]
    context, block = flow.context(ids), model.transformer.h[0]
    x, v = (torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(i)) for i in (3, 4))

    def ours(u: Tensor) -> Tensor:
        return ss.integrate(flow.scheme, flow.steps[:1], u, context)

    with sdpa_kernel(SDPBackend.MATH):
        for derivative in (
            lambda f: torch.func.jvp(f, (x,), (v,))[1],
            lambda f: torch.func.vjp(f, x)[1](v)[0],
            lambda f: torch.func.jacrev(f)(x),
            lambda f: torch.func.jacfwd(f)(x),
        ):
            torch.testing.assert_close(derivative(ours), derivative(lambda u: block(u)), rtol=1e-4, atol=1e-5)


def test_gradients_reach_the_models_weights() -> None:
    model = made("llama")
    flow, inputs = load(model), inputs_of(model)
    weight = model.model.layers[1].mlp.down_proj.weight
    [ours] = torch.autograd.grad(through(flow, inputs).square().sum(), weight)
    [theirs] = torch.autograd.grad(model(**inputs).logits.square().sum(), weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_other_schemes_and_sub_steps_run_on_the_fields() -> None:
    model = made("llama")
    flow, inputs = load(model), inputs_of(model)
    context, x = flow.context(inputs), flow.embed(inputs)
    with torch.no_grad():
        fine = [
            ss.integrate(ss.scheme(name), ss.refine(flow.steps, k), x, context)
            for name, k in (("strang-midpoint", 8), ("strang-midpoint", 16), ("rk4", 8))
        ]
    assert distance(fine[0], fine[1]) < 1e-3
    assert distance(fine[1], fine[2]) < 1e-3


def test_states_have_the_names_that_users_know() -> None:
    model = made("gpt2")
    flow, ids = load(model), torch.arange(1, 6)[None]
    events: list[ss.Event] = []
    with torch.no_grad():
        ss.integrate(flow.scheme, flow.steps, flow.embed(ids), flow.context(ids), events.append)
        hidden = model(ids, output_hidden_states=True).hidden_states
    seen = [(state_name(event, flow.scheme), event.x) for event in events]
    after = [state_name(event, flow.scheme, "after") for event in events]
    names = [name for pair in zip([name for name, _ in seen], after, strict=True) for name in pair]
    assert [(one.name, one.layer, one.t) for one in names[4:8]] == [
        ("resid_pre", 1, 1.0), ("resid_mid", 1, 2.0), ("resid_mid", 1, 1.0), ("resid_post", 1, 2.0),
    ]  # fmt: skip
    for layer in range(2):
        [x] = [x for name, x in seen if name[:2] == ("resid_pre", layer)]
        torch.testing.assert_close(x, hidden[layer])


def test_half_precision_is_read_too() -> None:
    model = made("llama").bfloat16()
    flow, inputs = load(model), inputs_of(model)
    assert (str(flow.scheme), flow.notes) == ("A F", ())
    with torch.no_grad():
        assert distance(through(flow, inputs), model(**inputs).logits) < 1e-2


@pytest.mark.parametrize("scheme", ["macaron", "reversible"])
def test_our_own_models_are_flows_without_tracing(scheme: str) -> None:
    model = ours("causal", scheme, vocab_size=30, substeps=2)
    flow, inputs = load(model), inputs_of(model)
    assert len(flow.steps) == 4
    with torch.no_grad():
        torch.testing.assert_close(through(flow, inputs), model(**inputs).logits)


def test_probes_see_a_flow_as_its_hidden_states() -> None:
    model = made("llama")
    flow, inputs = load(model), inputs_of(model)
    found = ss.observe(flow, inputs, probes=["state_norms", "increment_norms", "drift"])
    states: list[Tensor] = []
    for layer in model.model.layers:
        layer.register_forward_hook(lambda *call: states.append(call[-1]))
    with torch.no_grad():
        first = model(**inputs, output_hidden_states=True).hidden_states[0]
    states.insert(0, first)
    real = inputs["attention_mask"].bool()
    norms = torch.stack([x.norm(dim=-1)[real].mean() for x in states])
    cosines = torch.stack([torch.cosine_similarity(x, first, dim=-1)[real].mean() for x in states[1:]])
    torch.testing.assert_close(torch.tensor(found["state_norms"]["model.layers"]["x"]), norms)
    torch.testing.assert_close(torch.tensor(found["drift"]["model.layers"]["input"]), cosines)
    assert {name: len(series) for name, series in found["increment_norms"]["model.layers"].items()} == {"A": 3, "F": 3}
    with pytest.raises(ValueError, match='probe "gradients" differentiates the loss, which a flow does not have'):
        ss.observe(flow, inputs, probes=["gradients"])


def test_probes_see_our_own_flow_as_they_see_the_model() -> None:
    model = ours("causal", "macaron", vocab_size=30, substeps=2)
    inputs, names = inputs_of(model), ["state_norms", "increment_norms", "drift"]
    assert ss.observe(load(model), inputs, names) == ss.observe(model, inputs, names)


class Gated(Block):
    """A block of g x + (1 - g) y, which is not a sum of x and fields."""

    def forward(self, x: Tensor) -> Tensor:
        g = self.query(x).sigmoid()
        return g * x + (1 - g) * self.value(x.cumsum(1))


class Plain(Block):
    def forward(self, x: Tensor) -> Tensor:
        return self.value(x).tanh()


class ReadsNumber(Block):
    """A block that no replay can follow: it reads its state as a Python number."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.value(x + float(x.sum()))


@pytest.mark.parametrize(
    ("block", "why"),
    [(ReadsNumber, "differ from it at another state"), (Gated, "no part of a block adds to its state")],
)
def test_a_block_that_cannot_be_taken_apart_is_read_whole(block: type[Block], why: str) -> None:
    model, ids = Ordered(block=block).eval(), torch.arange(1, 9)[None]
    with pytest.warns(UserWarning, match=rf"^Ordered: blocks is read by whole layers.*{why}"):
        flow = load(model)
    assert str(flow.scheme) == "W"
    with torch.no_grad():
        assert distance(through(flow, ids), model(ids)) < 1e-5
        u = torch.randn(1, 8, 8)
        x = ss.integrate(flow.scheme, flow.steps[:1], u, flow.context(ids))
        torch.testing.assert_close(x, model.blocks[0](u))


def test_blocks_without_residual_connections_are_no_transformer() -> None:
    with pytest.raises(ValueError, match=r"^Ordered is not a Transformer: it has no repeated blocks with a residual"):
        load(Ordered(block=Plain))


def test_what_cannot_be_run_is_refused_in_one_line() -> None:
    flow = load(made("gpt2"))
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel has 32 positions and was given a text of 33 tokens"):
        flow.context(torch.ones(1, 33, dtype=torch.long))
    with pytest.raises(ValueError, match=r"^GPT2LMHeadModel does not take these inputs: index out of range"):
        flow.context(torch.full((1, 5), 99))
    flow.context(torch.ones(1, 5, dtype=torch.long))
    with pytest.raises(ValueError, match=r"head was given a state of shape \[1, 6, 16\]; its pass has \[1, 5, 16\]"):
        flow.head(torch.zeros(1, 6, 16))
