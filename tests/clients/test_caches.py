"""Caches of transformers: every row decodes the same words with a dynamic and a static cache as with none.

Models run in float64, so no near-tie of two tokens can hide or fake a mistake.
"""

from typing import Any

import pytest
import torch
from tiny import LENGTH, left_mask, right_mask, tiny, tokens
from torch._dynamo.utils import counters
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

import splitstep as ss

NEW = 6


def greedy(model: Any, ids: Any, mask: Any, **how: Any) -> Any:
    return model.generate(ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, **how)


def sized(kind: str, model: Any, length: int) -> Any:
    if kind == "dynamic":
        return DynamicCache(config=model.config)
    return StaticCache(config=model.config, max_cache_len=length)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("scheme", list(ss.SCHEMES))
def test_every_row_says_the_same_with_a_cache_made_of_the_config(scheme: str, kind: str) -> None:
    model, ids, mask = tiny("causal", scheme).double(), tokens(), left_mask()
    expected = greedy(model, ids, mask, use_cache=False)
    cache = sized(kind, model, LENGTH + NEW + 3)  # a static cache may be longer than needed
    assert torch.equal(greedy(model, ids, mask, past_key_values=cache), expected)
    assert len(expected[:, LENGTH:].unique()) >= 3
    assert model.config.get_text_config() is model.config


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal", "none"])
@pytest.mark.parametrize("scheme", ["macaron", "strang-midpoint", "reversible"])
def test_generate_makes_a_static_cache_by_its_name(scheme: str, positions: str) -> None:
    model, ids, mask = tiny("causal", scheme, positions=positions, kv_heads=2).double(), tokens(), left_mask()
    for how in ({}, {"num_beams": 3}):
        expected = greedy(model, ids, mask, use_cache=False, **how)
        assert torch.equal(greedy(model, ids, mask, cache_implementation="static", **how), expected)


@pytest.mark.parametrize("scheme", ["lie", "macaron", "strang-midpoint", "lie-postnorm", "reversible"])
def test_translators_say_the_same_with_static_caches(scheme: str) -> None:
    model, ids, mask = tiny("translation", scheme, eos_token_id=None).double(), tokens(), right_mask()
    for how in ({}, {"num_beams": 3}):
        expected = greedy(model, ids, mask, use_cache=False, **how)
        assert torch.equal(greedy(model, ids, mask, cache_implementation="static", **how), expected)
    expected = greedy(model, ids, mask, use_cache=False)
    for kind in ("dynamic", "static"):
        cache = EncoderDecoderCache(sized(kind, model, NEW + 5), sized(kind, model, LENGTH + 4))
        assert torch.equal(greedy(model, ids, mask, past_key_values=cache), expected)
        if kind == "static":
            cache.reset()
            other = tokens(7)
            again = greedy(model, other, mask, past_key_values=cache)
            assert torch.equal(again, greedy(model, other, mask, use_cache=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "backend"), [("strang-midpoint", "eager"), pytest.param("lie", "inductor", marks=pytest.mark.nightly)]
)
def test_a_decoding_step_with_a_static_cache_compiles_in_one_graph(scheme: str, backend: str) -> None:
    """Once: further steps, at other lengths, run the same graph."""
    model, ids = tiny("causal", scheme, positions="rotary"), tokens()
    whole = model(ids, use_cache=False).logits
    cache = StaticCache(config=model.config, max_cache_len=12)
    torch.compiler.reset()
    counters.clear()
    step = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        model(ids[:, :3], past_key_values=cache)
        found = [step(ids[:, i : i + 1], past_key_values=cache).logits for i in range(3, LENGTH)]
    torch.testing.assert_close(torch.cat(found, 1), whole[:, 3:], atol=1e-4, rtol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1


def test_assisted_decoding_says_what_the_model_alone_says() -> None:
    """An assistant of another scheme proposes, the model decides."""
    ids = tokens(rows=1)
    for scheme, helper in (("macaron", "lie"), ("strang-midpoint", "parallel"), ("reversible", "strang-midpoint")):
        model, assistant = tiny("causal", scheme).double(), tiny("causal", helper, layers=1).double()
        mask = torch.ones_like(ids)
        expected = greedy(model, ids, mask, use_cache=False)
        for one in (assistant, model):  # one that is often wrong, one that is always right
            assert torch.equal(greedy(model, ids, mask, assistant_model=one), expected)
        assert torch.equal(greedy(model, ids, mask, prompt_lookup_num_tokens=2), expected)


def test_a_cache_of_another_size_is_one_clear_line() -> None:
    model, ids = tiny("causal", "strang-midpoint"), tokens()
    other = DynamicCache()
    tiny("causal", "lie")(ids, past_key_values=other)
    small = StaticCache(config=tiny("causal", "lie").config, max_cache_len=12)
    says = r"^past_key_values has 2 slots; the scheme .* needs 4, one for each evaluation of attention\. Make it with"
    for cache in (other, small, DynamicCache(config=tiny("causal", "lie").config)):
        with pytest.raises(ValueError, match=says):
            model(ids[:, -1:], past_key_values=cache)
    with pytest.raises(ValueError, match=r"^past_key_values is a tuple: pass a Cache of transformers"):
        model(ids, past_key_values=())
    with pytest.raises(ValueError, match=r"^past_key_values is a DynamicCache: a translation model needs an Encoder"):
        tiny("translation")(ids, decoder_input_ids=ids, past_key_values=DynamicCache())
    with pytest.raises(ValueError, match=r"^7 tokens do not fit a static cache of max_cache_len=6: make a larger one"):
        model(ids, past_key_values=StaticCache(config=model.config, max_cache_len=6))


def test_a_mask_of_another_length_is_one_clear_line() -> None:
    """Broadcasting would hide it: a mask of one token fits a step of one token after any number of others."""
    model, ids = tiny("causal"), tokens()
    cache = DynamicCache()
    model(ids, past_key_values=cache)
    with pytest.raises(ValueError, match=r"^attention_mask covers 1 token; it must cover 8: 7 in the cache and 1 new"):
        model(ids[:, -1:], torch.ones(3, 1), past_key_values=cache)
