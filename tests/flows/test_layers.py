"""Some layers of a model are a model: what it returns is what the whole one does without the others."""

from typing import Any

import pytest
import torch
import transformers as hf
from pretrained_folders import bert, llama
from zoo import SIZES, tiny

from splitstep.flows.examples import made_up
from splitstep.flows.foreign import ForeignFlow
from splitstep.flows.layers import kept_layers, only_layers, with_layers
from splitstep.flows.skipping import states_after
from splitstep.flows.sums import distance

DEEPER = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "num_decoder_layers")
KINDS = ["MixtralForCausalLM", "Gemma2ForCausalLM", "BertForMaskedLM", "ViTForImageClassification", "FalconForCausalLM"]
MORE = ["T5ForConditionalGeneration", "DebertaV2Model", "ModernBertForMaskedLM", "LlavaForConditionalGeneration"]


def same_state(layer: int, x: torch.Tensor) -> torch.Tensor:
    return x


def deeper(name: str, patch: pytest.MonkeyPatch) -> Any:
    """A tiny model of three layers."""
    for entry in DEEPER:
        patch.setitem(SIZES, entry, 3)
    return tiny(name)


@pytest.mark.parametrize("name", [*KINDS, *(pytest.param(one, marks=pytest.mark.slow) for one in MORE)])
def test_some_layers_return_what_the_whole_model_does_without_the_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = deeper(name, monkeypatch)
    given = made_up(model, name)
    flow = ForeignFlow(model, given, name)
    with torch.no_grad():
        of, own = flow.context(given), flow.call(given)[0]
        *_, end = states_after(flow, of, 0, flow.embed(given), (1,), same_state)
        wanted = flow.head(end, of)
        *_, same = states_after(flow, of, 0, flow.embed(given), (), same_state)
        assert distance(flow.head(same, of), own) < 1e-5
        smaller = only_layers(model, [0, 2], name)
        found = smaller(**given)[0]
    assert distance(found, wanted) < 1e-5
    assert distance(found, own) > 1e-4
    assert len(flow.chains[flow.main].modules) == 3  # the whole model is as it was


def test_layers_before_are_not_run_again() -> None:
    model = llama().eval()
    given = {"input_ids": torch.arange(2, 10)[None]}
    flow = ForeignFlow(model, given, "llama")
    of, runs = flow.context(given), list[int]()
    x, *states = flow.embed(given), *states_after(flow, of, 0, flow.embed(given), (), same_state)
    for number, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(lambda *_, number=number: runs.append(number))
        layer.mlp.register_forward_pre_hook(lambda *_, number=number: runs.append(10 + number))
    rest = states_after(flow, of, 2, states[1], (2,), same_state)
    assert [one for one in runs if one >= 10] == [13]
    torch.testing.assert_close(rest[0], states[1])
    torch.testing.assert_close(x, model.model.embed_tokens(given["input_ids"]))
    assert states_after(flow, of, 4, states[-1], (), same_state) == []


def test_an_even_choice_keeps_the_last_layer() -> None:
    assert kept_layers(10, 30) == [2, 5, 8, 11, 14, 17, 20, 23, 26, 29]
    model = llama(6).eval()
    state = {name: x.clone() for name, x in model.state_dict().items()}
    smaller = with_layers(model, 2, "llama")
    assert smaller.config.num_hidden_layers == 2
    for i, layer in enumerate([2, 5]):
        for name, x in smaller.model.layers[i].named_parameters():
            torch.testing.assert_close(x, state[f"model.layers.{layer}.{name}"], rtol=0, atol=0)
    assert len(model.model.layers) == 6


def test_entries_with_one_value_a_layer_keep_those_of_the_layers() -> None:
    kinds = ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]
    config = hf.Qwen2Config(
        vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, layer_types=kinds, sliding_window=3, use_sliding_window=True,
    )  # fmt: skip
    smaller = only_layers(hf.Qwen2ForCausalLM(config).eval(), [3, 1], "qwen")
    assert smaller.config.layer_types == ["full_attention", "sliding_attention"]
    assert smaller.config.num_hidden_layers == 2


@pytest.mark.parametrize(("kept", "line"), [([1], "would have 1 of its 3 layers"), ([], "would have 0 of its 3")])
def test_too_few_layers_are_refused(kept: list[int], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        only_layers(bert().eval(), kept, "bert")


def test_layers_that_are_shared_cannot_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="its layers are not one list"):
        only_layers(deeper("AlbertForMaskedLM", monkeypatch), [0, 1], "albert")


def test_states_can_be_changed_on_their_way_and_experts_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hooks on the model itself; what is done to the state before layer 0 is done there, too."""
    model = deeper("MixtralForCausalLM", monkeypatch)
    given = made_up(model, "mixtral")
    flow = ForeignFlow(model, given, "mixtral")

    def without_one(layer: int, x: torch.Tensor) -> torch.Tensor:
        return x.index_fill(-1, torch.tensor([3 + layer]), 2.0)

    with torch.no_grad():
        of = flow.context(given)
        *_, end = states_after(flow, of, 0, flow.embed(given), (), without_one)
        found = flow.head(end, of)
        for number, layer in enumerate(model.model.layers):
            layer.register_forward_pre_hook(lambda _, args, number=number: (without_one(number, args[0]), *args[1:]))
        assert distance(found, model(**given).logits) < 1e-5
