"""Attention weights of other people's models are those that they return themselves."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import tiny

import splitstep as ss
from splitstep.opening import load

MODELS = (
    "LlamaForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM", "T5ForConditionalGeneration", "Gemma2ForCausalLM",
    "ViTForImageClassification", "Qwen2ForCausalLM", "GPTJForCausalLM", "MixtralForCausalLM", "AlbertForMaskedLM",
    "GptOssForCausalLM", "BloomForCausalLM",
)  # fmt: skip


def inputs_of(model: Any) -> dict[str, Tensor]:
    """Three texts, one with padding, or three images."""
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))}
    ids = torch.randint(3, 40, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    given = {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}
    if not model.config.is_encoder_decoder:
        return given
    return {**given, "decoder_input_ids": ids.flip(1)[:, :6], "decoder_attention_mask": mask[:, :6]}


def eager(model: Any) -> Any:
    """The same model with attention written out, which returns its weights."""
    made = type(model)._from_config(deepcopy(model.config), attn_implementation="eager").eval()
    made.load_state_dict(model.state_dict())
    return made


def returned(model: Any, given: dict[str, Tensor], stack: str = "") -> dict[str, Tensor]:
    """The weights [layers, B, heads, T, S] by the letter of their field."""
    with torch.no_grad():
        out = eager(model)(**given, output_attentions=True)
    if not model.config.is_encoder_decoder:
        return {"A": torch.stack(out.attentions)}
    if stack.startswith("encoder"):
        return {"A": torch.stack(out.encoder_attentions)}
    return {"A": torch.stack(out.decoder_attentions), "C": torch.stack(out.cross_attentions)}


def weights_in(flow: Any, given: dict[str, Tensor], stack: str) -> dict[str, Tensor]:
    """What the fields of a stack say in a pass, at its own states."""
    context = flow.context(given)
    found: dict[str, list[Tensor]] = {}

    def see(event: ss.Event) -> None:
        for name, field in event.fields.items():
            weights = field.weights(event.t, event.read, event.context)  # pyright: ignore[reportFunctionMemberAccess]
            if weights is not None:
                found.setdefault(name, []).append(weights)

    with torch.no_grad():
        home = flow.stacks[stack]
        ss.integrate(home.scheme, home.steps(), start_of(flow, given, stack), context, see)
    return {name: torch.stack(layers) for name, layers in found.items()}


def start_of(flow: Any, given: dict[str, Tensor], stack: str) -> Tensor:
    if stack == flow.main:
        return flow.embed(given)
    return flow.model.get_encoder().embed_tokens(given["input_ids"])


@pytest.mark.parametrize(("name", "stack"), [*((name, "") for name in MODELS), (MODELS[3], "encoder.block")])
def test_weights_are_those_that_the_model_returns(name: str, stack: str) -> None:
    model = tiny(name)
    if name == "Gemma2ForCausalLM":
        model = eager(model)  # the fused operation leaves its softcap out
    given, flow = inputs_of(model), load(model)
    found, oracle = weights_in(flow, given, stack or flow.main), returned(model, given, stack)
    assert found.keys() == oracle.keys()
    real = given.get("attention_mask" if stack else "decoder_attention_mask", given.get("attention_mask"))
    for letter, weights in oracle.items():
        queries = torch.ones(weights.shape[1], weights.shape[3]).bool() if real is None else real.bool()
        ours, theirs = (w.transpose(2, 3)[:, queries] for w in (found[letter], weights))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM"])
def test_the_probes_find_them(name: str) -> None:
    model = tiny(name)
    given, flow = inputs_of(model), load(model)
    figures: Any = {probe: one[flow.main] for probe, one in ss.observe(flow, given, ["attention", "rollout"]).items()}
    oracle, real = returned(model, given)["A"], given["attention_mask"].bool()
    kept = figures["attention"]["A weights"].float().transpose(2, 3)[:, real]
    torch.testing.assert_close(kept, oracle.transpose(2, 3)[:, real], rtol=1e-3, atol=1e-3)
    entropy = torch.special.entr(oracle.double()).sum(-1).mean(2)[:, real].mean(1)
    torch.testing.assert_close(torch.tensor(figures["attention"]["A"]).double(), entropy, rtol=1e-4, atol=1e-5)
    product = torch.eye(9)
    for w in oracle.mean(2):
        product = (w + torch.eye(9)) / 2 @ product
    found = figures["rollout"]["weights"].float()
    torch.testing.assert_close(found[real], product[real], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["FNetForMaskedLM", "MambaForCausalLM"])
def test_where_there_is_no_attention_there_are_no_figures_and_a_note(name: str) -> None:
    flow = load(tiny(name))
    found = ss.observe(flow, {"input_ids": torch.arange(1, 9)[None]}, ["attention", "rollout"])
    assert [one[flow.main] for one in found.values()] == [{}, {}]
    assert any("no attention weights" in note for note in flow.notes)


def test_grouped_heads_and_biases_of_the_fused_operation() -> None:
    """The weights times the values are what the operation returns."""
    from splitstep.flows.attention import fused_weights

    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 8, generator=draw) for heads in (4, 2, 2))
    bias = torch.randn(2, 1, 5, 5, generator=draw)
    hidden = torch.rand(2, 1, 5, 5, generator=draw) < 0.5
    hidden[0, 0, 2] = False  # a query that may look nowhere
    for more in ({"attn_mask": bias}, {"attn_mask": hidden, "scale": 0.3}, {"is_causal": True}):
        oracle = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **more)  # pyright: ignore[reportArgumentType]
        w = fused_weights(q, k, v, enable_gqa=True, **more)  # pyright: ignore[reportArgumentType]
        torch.testing.assert_close(w @ v.repeat_interleave(2, 1), oracle)
