"""A causal model that sees later tokens or other examples of its batch is found, in either mode, and no other is."""

from typing import Any

import pytest
import torch
from strangers import BATCH_NORM, CHUNKS, CLOSED, DROPS, FUTURE, GOOD, SINGLE, gpt2, llama
from transformers import AutoModelForCausalLM, BertConfig

from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.models.block import BlockConfig, SplitstepBlockForCausalLM, trust
from splitstep.models.leaks import check_leaks, leak_of
from splitstep.schemes import SCHEMES
from splitstep.sources import BlockSource

LENGTH = 40
SHAPE = {"width": 32, "heads": 4, "layers": 2, "ffn": 48, "vocab_size": 30, "max_positions": LENGTH, "dropout": 0.1}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))


def around(text: str) -> Any:
    source = trust(BlockSource("mine.py:block", text))
    return SplitstepBlockForCausalLM(BlockConfig(block={"file": source.file, "text": text}, shape=SHAPE))


def of_transformers(config: Any) -> Any:
    config.vocab_size, config.hidden_size, config.num_hidden_layers, config.num_attention_heads = 30, 32, 2, 4
    return AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("row", SCHEMES)
def test_no_row_leaks(row: str) -> None:
    config = CausalConfig(**SHAPE, scheme=row, attention_dropout=0.1)
    assert leak_of(SplitstepForCausalLM(config), LENGTH) is None


@pytest.mark.parametrize("text", [GOOD, DROPS, SINGLE], ids=["good", "dropout", "float32 inside"])
def test_a_causal_block_does_not_leak(text: str) -> None:
    check_leaks(around(text), "mine.py:block", LENGTH)


@pytest.mark.parametrize(
    "config",
    [llama(intermediate_size=48, num_key_value_heads=2, attention_dropout=0.1), gpt2()],
    ids=["llama", "gpt2"],
)
def test_models_of_transformers_do_not_leak(config: Any) -> None:
    assert leak_of(of_transformers(config), LENGTH) is None


@pytest.mark.parametrize("text", [FUTURE, CLOSED, CHUNKS], ids=["future", "closed at first", "chunks"])
def test_a_block_that_sees_later_tokens_is_refused_with_the_figure(text: str) -> None:
    model = around(text)
    found = leak_of(model, LENGTH)
    assert found is not None
    assert found.what == "later tokens"
    assert 1e-4 < found.figure < 2
    with pytest.raises(ValueError, match=f"^mine.py:block sees later tokens: .* by {found.figure:.2g} of the largest"):
        check_leaks(model, "mine.py:block", LENGTH)


def test_a_batch_norm_leaks_in_training_only() -> None:
    found = leak_of(around(BATCH_NORM), LENGTH)
    assert found is not None
    assert found.training
    with pytest.raises(ValueError, match=r"in training mode, and none may change") as raised:
        check_leaks(around(BATCH_NORM), "mine.py:block", LENGTH)
    assert "\n" not in str(raised.value)


def test_an_encoder_leaks() -> None:
    found = leak_of(of_transformers(BertConfig(intermediate_size=48)), LENGTH)
    assert found is not None
    assert found.what == "later tokens"


def test_looking_changes_nothing() -> None:
    model = around(BATCH_NORM).train()
    before, state = {name: x.clone() for name, x in model.state_dict().items()}, torch.get_rng_state()
    leak_of(model, LENGTH)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
