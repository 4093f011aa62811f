"""Every probe measures other people's models: they are checked against the models' own modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_attention_of_flows import inputs_of
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from zoo import tiny

import splitstep as ss
from splitstep.pretrained import load
from splitstep.probes import PROBES
from splitstep.probes.jacobian import JacobianSpectra

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
MEASURING = [name for name in PROBES.names if name != "gradients"]
TEXTWISE = (
    "trajectory",
    "clustering",
    "rank",
    "drift",
    "state_norms",
    "increment_norms",
    "jacobian",
    "leading",
    "lens",
)
"""Probes whose figures of a text do not depend on the padding beside it."""
FEW = ("communities correlation", "communities p", "commutator not defined")
"""Series that may be undefined: with fewer than 3 communities, or where nothing is split."""


def figures_of(model: Any, given: Any, names: Any = MEASURING) -> dict[str, Any]:
    flow = load(model)
    return {probe: one[flow.main] for probe, one in ss.observe(flow, given, list(names)).items()}


def layers_of(model: Any) -> Any:
    """The modules of the blocks, for the oracle."""
    lists = [one for one in model.modules() if isinstance(one, torch.nn.ModuleList)]
    return lists[0]


class Kept(JacobianSpectra):
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
                oracle: Any = torch.func.jacrev(lambda u, b=block: run(b, u[None, None])[0, 0])(layer.x[text, last])
            torch.testing.assert_close(one.j, oracle.detach().double(), rtol=1e-5, atol=1e-5)
