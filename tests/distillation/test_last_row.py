"""SRA's masses from one call of fused attention are those of the attention weights, written out by the model itself."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from distil_pairs import bpe, gpt2, llama
from tiny import tiny
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from splitstep.distillation.geometry import attention_masses
from splitstep.distillation.records import MASSES
from splitstep.distillation.subject import Call, Subject, watching_attention

WANTED = {MASSES}
SIZES: dict[str, Any] = dict(
    vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, initializer_range=0.5,
)  # fmt: skip
MODELS = {
    "llama": lambda: llama(bpe(), 3, 16),
    "shared keys": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "sliding window": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)),
    "gpt2": lambda: gpt2(bpe(), 3, 16),
}
OURS = {
    scheme: partial(tiny, "causal", scheme, layers=2, vocab_size=64, max_positions=32)
    for scheme in ("lie", "macaron", "kutta3")
}


def texts() -> tuple[Tensor, Tensor]:
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, 6:] = 0
    mask[2, 1:] = 0
    return torch.randint(0, 50, (3, 9), generator=torch.Generator().manual_seed(0)), mask


def written_out(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """The masses by the model's own attention weights."""
    output = model(input_ids=ids, attention_mask=mask, output_attentions=True, use_cache=False)
    return attention_masses(output.attentions[-1], mask.bool())


@pytest.mark.parametrize(("name", "padded"), [*product(MODELS, (True, False)), *((name, True) for name in OURS)])
def test_masses_are_those_of_the_weights_that_the_model_tells(name: str, padded: bool) -> None:
    """Our own models need not write their attention out; others are told to here."""
    torch.manual_seed(0)
    model: Any = (MODELS | OURS)[name]().eval()
    ids, mask = texts()
    mask = mask if padded else torch.ones_like(mask)
    subject = Subject(model, name)
    subject.prepare(WANTED)
    assert subject.fused
    found = subject.show(ids, mask, WANTED)[MASSES]
    if name in MODELS:
        assert model.config._attn_implementation == "sdpa"
        model.set_attn_implementation("eager")
    expected = written_out(model, ids, mask)
    torch.testing.assert_close(found, expected)
    assert (expected - mask / mask.sum(1, keepdim=True)).abs().max() > 1e-4, "attention is not uniform"


def test_a_model_without_fused_attention_writes_its_weights_out() -> None:
    model = llama(bpe(), 3, 16).eval()
    ids, mask = texts()
    model.set_attn_implementation("eager")
    subject = Subject(model, "eager")
    subject.prepare(WANTED)
    assert not subject.fused
    torch.testing.assert_close(subject.show(ids, mask, WANTED)[MASSES], written_out(model, ids, mask))


def test_trying_draws_no_random_number_and_leaves_the_mode() -> None:
    model = gpt2(bpe(), 2, 16).train()
    subject, before = Subject(model, "gpt2"), torch.get_rng_state()
    subject.prepare(WANTED)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training


@pytest.mark.parametrize("mask", [None, "causal", "boolean", "added"])
def test_a_row_is_that_of_the_written_out_weights(mask: str | None) -> None:
    """The weights are what fused attention does to the unit matrix. Dropout is left out of the row."""
    source = torch.Generator().manual_seed(1)
    query, key = (torch.randn(2, heads, 5, 8, generator=source, dtype=torch.float64) for heads in (4, 2))
    unit = torch.eye(5, dtype=torch.float64).expand(2, 2, 5, 5)
    given = {
        None: {}, "causal": {"is_causal": True},
        "boolean": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril()[None, None]},
        "added": {"attn_mask": torch.randn(2, 1, 5, 5, generator=source, dtype=torch.float64)},
    }[mask]  # fmt: skip
    weights = functional.scaled_dot_product_attention(query, key, unit, scale=0.3, enable_gqa=True, **given)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    rows = Call(query, key, unit, dropout_p=0.5, scale=0.3, enable_gqa=True, **given).last_rows(real)
    torch.testing.assert_close(rows, torch.stack((weights[0, :, 4], weights[1, :, 2])))


def test_a_pass_that_fails_leaves_nothing_watching() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("out of luck")

    module = Fails()
    with watching_attention([module]) as seen, pytest.raises(RuntimeError, match="out of luck"):
        module(torch.zeros(1))
    x = torch.zeros(1, 1, 2, 2)
    functional.scaled_dot_product_attention(x, x, x)
    assert seen.call is None
