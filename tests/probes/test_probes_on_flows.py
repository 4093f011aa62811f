"""Every probe measures other people's models: they are checked against the models' own modules."""

from typing import Any

import pytest
import torch
from test_attention_of_flows import inputs_of
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from zoo import tiny

import splitstep as ss
from splitstep.flows.blocks import first_float
from splitstep.opening import load
from splitstep.probes import PROBES
from splitstep.probes.jacobians import TokenJacobians

MODELS = {
    "LlamaForCausalLM": "A F",
    "GPTJForCausalLM": "A+F",
    "BertForMaskedLM": "A N F M",
    "Gemma2ForCausalLM": "A F",
    "T5ForConditionalGeneration": "A C F",
    "MixtralForCausalLM": "A F",
    "ViTForImageClassification": "A F",
    "AlbertForMaskedLM": "A N F M",
}
MEASURING = [name for name in PROBES if name != "gradients"]
TEXTWISE = [name for name in MEASURING if name not in ("information", "states", "cka_layers", "sensitivity")]
"""Probes whose figures of a text do not depend on the others: the others choose tokens or draw noise for all."""
UNDEFINED = {"communities": ("correlation", "p"), "commutator": ("not defined",)}
"""Series that need not be numbers: with fewer than 3 communities, or where nothing is split."""
ALONE = {"sensitivity": ("exponent",), "products": ("exponents", "exponents spread")}
"""Series that are not by layer."""


def figures_of(model: Any, given: Any, names: Any = MEASURING) -> dict[str, Any]:
    flow = load(model)
    return {probe: one[flow.main] for probe, one in ss.observe(flow, given, list(names)).items()}


class Kept(TokenJacobians):
    """The probe with the states at which it linearises."""

    seen: Any = None

    def figures(self, passed: Any) -> Any:
        type(self).seen = (self.linearised(passed), self.layers(passed), self.real(passed))
        return {}


@pytest.fixture
def kept() -> Any:
    PROBES.add("kept", Kept)
    yield Kept
    del PROBES.own["kept"]


def modules_at(model: Any, name: str) -> Any:
    """(module, state [1, 1, width]) -> the module's own output on a single token at position 0."""
    if "Llama" in name or "Gemma2" in name or "Mixtral" in name:

        def run(block: Any, u: Tensor) -> Tensor:
            rotary = model.model.rotary_emb(u.detach(), torch.zeros(1, 1, dtype=torch.long))
            return block(u, position_embeddings=rotary)
    else:

        def run(block: Any, u: Tensor) -> Tensor:
            found = block(u)
            return found if isinstance(found, Tensor) else found[0]

    return run


BLOCKS: dict[str, Any] = {
    "LlamaForCausalLM": lambda model: model.model.layers,
    "GPT2LMHeadModel": lambda model: model.transformer.h,
    "BertForMaskedLM": lambda model: model.bert.encoder.layer,
    "Gemma2ForCausalLM": lambda model: model.model.layers,
    "MixtralForCausalLM": lambda model: model.model.layers,
    "ViTForImageClassification": lambda model: model.vit.layers,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_jacobians_of_one_token_are_those_of_the_modules(name: str, kept: Any) -> None:
    model = tiny(name)
    given, flow = inputs_of(model), load(model)
    ss.observe(flow, given, ["kept"])
    found, layers, real = kept.seen
    run, blocks = modules_at(model, name), BLOCKS[name](model)
    assert len(found) == len(blocks)
    for block, layer, jacobians in zip(blocks, layers, found, strict=True):
        assert len(jacobians) == 2
        for text, one in enumerate(jacobians):
            last = layer.x.shape[1] - 1 if real is None else int(real[text].nonzero().max())
            with sdpa_kernel(SDPBackend.MATH):
                oracle: Any = torch.func.jacrev(lambda u, b=block: run(b, u[None, None])[0, 0], chunk_size=1)(
                    layer.x[text, last]
                )
            torch.testing.assert_close(one.j, oracle.detach().double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_probe_has_finite_figures_for_every_layer(name: str) -> None:
    model = tiny(name)
    found, layers = figures_of(model, inputs_of(model)), len(load(model).steps)
    empty = {probe for probe, figures in found.items() if not figures}
    assert empty == ({"lens"} if name.startswith("ViT") else set())
    for probe, figures in found.items():
        for series, values in figures.items():
            numbers = torch.as_tensor(values)
            defined = series not in UNDEFINED.get(probe, ())
            assert not defined or bool(numbers.isfinite().all()), (probe, series)
            if isinstance(values, tuple) and series not in ALONE.get(probe, ()) and not series.endswith(" bias"):
                assert len(values) - layers in (-1, 0, 1), (probe, series)
    splits = MODELS[name] in ("A F", "A C F")
    assert ("not defined" in found["commutator"]) != splits
    assert ("lie" in found["commutator"]) == splits


@pytest.mark.parametrize("name", [name for name in MODELS if not name.startswith("ViT")])
def test_padding_is_not_counted(name: str) -> None:
    """A text beside a longer one has the figures that it has alone."""
    model = tiny(name)
    batch = inputs_of(model)
    row = {key: value[1:2] for key, value in batch.items()}
    short = {key: value[:, : int(row["attention_mask"].sum())] for key, value in row.items()}
    padded, alone = (figures_of(model, given, TEXTWISE) for given in (row, short))
    for probe, figures in alone.items():
        for series, values in figures.items():
            if isinstance(values, tuple):
                exact = 2e-2 if probe == "leading" else 1e-3  # it starts at random and ends when a round adds 1%
                close = pytest.approx(values, rel=exact, abs=1e-4, nan_ok=True)
                assert padded[probe][series] == close, (probe, series)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "MixtralForCausalLM", "BertForMaskedLM"])
def test_few_texts_of_a_larger_batch_are_those_texts(name: str) -> None:
    """Probes that look at the first 2 texts have the same figures if there are only these."""
    model = tiny(name)
    batch, names = inputs_of(model), ["jacobian", "leading", "commutator"]
    many, few = (figures_of(model, given, names) for given in (batch, {k: v[:2] for k, v in batch.items()}))
    for probe, figures in few.items():
        for series, values in figures.items():
            if isinstance(values, tuple):
                assert many[probe][series] == pytest.approx(values, rel=1e-4, abs=1e-5, nan_ok=True), (probe, series)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_leading_values_of_a_single_text_are_those_of_the_dense_jacobian(name: str) -> None:
    """Of a text alone, by this probe alone: nothing has read the model's blocks before."""
    model = tiny(name, 0.2).double()
    given = {"input_ids": inputs_of(model)["input_ids"][:1]}
    found, states = figures_of(model, given, ["leading"])["leading"], list[Tensor]()
    blocks = BLOCKS[name](model)
    hooks = [
        block.register_forward_pre_hook(lambda _, x, k: states.append((x, k)), with_kwargs=True) for block in blocks
    ]
    with torch.no_grad():
        model(**given, use_cache=False)
    for hook in hooks:
        hook.remove()
    for layer, (block, ((x, *rest), more)) in enumerate(zip(blocks, states, strict=True)):
        with sdpa_kernel(SDPBackend.MATH):
            dense: Any = torch.func.jacrev(lambda y, b=block, r=rest, m=more: first_float(b(y, *r, **m)))(x)
        wanted = torch.linalg.svdvals(dense.detach().reshape(x.numel(), x.numel()))
        for i in range(4):
            assert found[f"s {i + 1}"][layer] == pytest.approx(float(wanted[i]), rel=1e-2)


def test_the_lens_is_the_models_own_head() -> None:
    model = tiny("BertForMaskedLM")
    given = inputs_of(model)
    found, real = figures_of(model, given, ["lens"])["lens"], given["attention_mask"].bool()
    with torch.no_grad():
        states = model(**given, output_hidden_states=True).hidden_states
        logs = [model.cls(x).log_softmax(-1) for x in states]
    for layer, one in enumerate(logs):
        kl = torch.nn.functional.kl_div(one, logs[-1], reduction="none", log_target=True).sum(-1)
        wanted = sum(float(kl[i, real[i]].mean()) for i in range(3)) / 3
        assert found["divergence"][layer] == pytest.approx(wanted, abs=1e-6)


def test_there_is_no_lens_where_the_output_is_no_vocabulary() -> None:
    for name in ("ViTForImageClassification", "CLIPTextModel"):
        model = tiny(name)
        assert figures_of(model, inputs_of(model), ["lens"])["lens"] == {}


def test_blocks_that_need_several_tokens_have_no_single_token_figures() -> None:
    """Swin's windows."""
    model = tiny("SwinForImageClassification")
    given = {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    with pytest.warns(UserWarning, match="has no Jacobians of single tokens: its blocks do not run on a single token"):
        found = figures_of(model, given, ["jacobian", "products", "communities", "leading"])
    assert [bool(figures) for figures in found.values()] == [False, False, False, True]


def test_a_model_without_embeddings_of_tokens_is_observed() -> None:
    model = tiny("Wav2Vec2ConformerModel")
    given = {"input_values": torch.randn(2, 200, generator=torch.Generator().manual_seed(1))}
    flow = load(model, inputs=given)
    found = ss.observe(flow, given, ["state_norms", "lens"])
    assert len(found["state_norms"][flow.main]["x"]) == 3
    assert found["lens"][flow.main] == {}


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "GPTJForCausalLM", "T5ForConditionalGeneration"])
def test_states_and_increments_cost_one_pass_of_the_model(name: str) -> None:
    model = tiny(name, 0.2)
    flow, calls = load(model), list[Any]()
    ss.observe(flow, inputs_of(model), ["drift"])  # learns where the values are
    with model.register_forward_hook(lambda *call: calls.append(call)):
        ss.observe(flow, inputs_of(model), ["drift", "state_norms", "increment_norms", "cka_layers", "rank"])
    assert len(calls) == 1
