"""Cached and uncached generation agree token for token, for every row; padding changes nothing.

The models run in float64: what is compared is the bookkeeping of cache, masks and positions, and no near-tie of two
tokens can hide or fake a mistake.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import left_mask, right_mask, tiny
from tiny import tokens as drawn
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

import splitstep as ss
from splitstep.models.base import all_stacks
from splitstep.models.body import sinusoids

NEW = 8
GREEDY: dict[str, Any] = {"do_sample": False}
BEAMS: dict[str, Any] = {"do_sample": False, "num_beams": 3}
SAMPLE: dict[str, Any] = {"do_sample": True, "top_k": 0, "temperature": 1.0}
MODES = {"greedy": GREEDY, "beams": BEAMS, "sampling": SAMPLE}


def made(kind: str, scheme: str, **more: Any) -> Any:
    return tiny(kind, scheme, **more).double()


def padded(kind: str) -> tuple[Tensor, Tensor]:
    """Prompts of 5, 2 and 4 tokens, or sources of 6, 3 and 5."""
    (seed, mask) = (2, left_mask(5)) if kind == "causal" else (8, right_mask(6))
    return drawn(seed, length=mask.shape[1]) * mask, mask


def generated(model: Any, tokens: Tensor, mask: Tensor | None, use_cache: bool, **how: Any) -> Any:
    torch.manual_seed(7)
    return model.generate(
        tokens, attention_mask=mask, max_new_tokens=NEW, use_cache=use_cache, return_dict_in_generate=True,
        output_scores=True, **how,
    )  # fmt: skip


def assert_same(cached: Any, plain: Any) -> None:
    assert torch.equal(cached.sequences, plain.sequences)
    assert plain.past_key_values is None
    for mine, other in zip(cached.scores, plain.scores, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)  # generate narrows scores to float32


def assert_lively(sequences: Tensor, start: int) -> None:
    """A model that repeats itself proves little."""
    new = sequences[:, start:]
    assert len(new.unique()) >= 3, new
    assert not torch.equal(new[0], new[1]) or not torch.equal(new[0], new[2])


@pytest.mark.parametrize(("kind", "scheme", "more"), [
    ("causal", "lie", {"positions": "learned"}),
    ("causal", "lie", {"positions": "none", "kv_heads": 1, "head_size": 6}),
    ("causal", "macaron", {"positions": "rotary", "kv_heads": 2}),
    ("causal", "lie-postnorm", {"positions": "sinusoidal"}),
    ("causal", "strang-midpoint", {"positions": "rotary", "kv_heads": 1, "head_size": 6}),
    ("causal", "strang-midpoint", {"positions": "sinusoidal", "kv_heads": 2}),
    ("causal", "reversible", {"positions": "learned", "kv_heads": 2}),
    ("causal", "reversible", {"positions": "rotary"}),
    *(("translation", one, {}) for one in ("macaron", "lie-postnorm", "strang-midpoint", "reversible")),
])  # fmt: skip
def test_a_model_generates_the_same_with_a_cache(kind: str, scheme: str, more: dict[str, Any]) -> None:
    """Whatever its positions, with shared keys and heads of a free size; there is a slot for each evaluation of
    attention, and a source is kept once."""
    model, (ids, mask) = made(kind, scheme, **more), padded(kind)
    *_, stack = all_stacks(model)
    for how in MODES.values():
        cached, plain = (generated(model, ids, mask, use_cache, **how) for use_cache in (True, False))
        assert_same(cached, plain)
        begin = ids.shape[1] if kind == "causal" else 1
        assert_lively(plain.sequences, begin)
        cache = cached.past_key_values
        assert type(cache) is (DynamicCache if kind == "causal" else EncoderDecoderCache)
        own = cache if kind == "causal" else cache.self_attention_cache
        assert len(own.layers) == 2 * stack.scheme.count("A")
        shape = (more.get("kv_heads", 4), begin + NEW - 1, more.get("head_size", 4))
        assert {layer.keys.shape[1:] for layer in own.layers} == {shape}
        if kind == "translation":
            assert len(cache.cross_attention_cache.layers) == 2 * stack.scheme.count("C")
            assert all(layer.keys.shape[-2] == 6 for layer in cache.cross_attention_cache.layers)


def test_beams_share_the_keys_of_their_source() -> None:
    """What transformers would copy in every step stays where it is; the target's keys do move."""
    cache = generated(made("translation", "macaron"), *padded("translation"), True, **BEAMS).past_key_values
    beams = torch.tensor([1, 0, 2, 5, 3, 4, 6, 6, 8])
    sources = [layer.keys for layer in cache.cross_attention_cache.layers]
    targets = [layer.keys for layer in cache.self_attention_cache.layers]
    cache.reorder_cache(beams)
    for keys, layer in zip(sources, cache.cross_attention_cache.layers, strict=True):
        assert layer.keys is keys
        assert torch.equal(keys, keys[beams])
    for keys, layer in zip(targets, cache.self_attention_cache.layers, strict=True):
        assert torch.equal(layer.keys, keys[beams])


@pytest.mark.parametrize("width", [16, 15])
def test_sinusoids_are_the_same_within_the_table_and_beyond(width: int, tmp_path: Path) -> None:
    """Positions below max_positions are looked up, in a loaded model too; later ones are computed."""
    model = made("translation", "lie", max_positions=4, width=width, heads=1).float()
    model.save_pretrained(tmp_path)
    loaded = ss.SplitstepForTranslation.from_pretrained(tmp_path).eval()
    assert torch.equal(model.encoder.embedding.sinusoids, sinusoids(torch.arange(4), width))
    tokens, mask = padded("translation")
    longer = made("translation", "lie", max_positions=64, width=width, heads=1).float()
    longer.load_state_dict(model.state_dict())
    for short in (3, 6):
        given = {"input_ids": tokens[:, :short], "attention_mask": mask[:, :short], "decoder_input_ids": tokens}
        found = [each(**given).logits for each in (model, loaded, longer)]
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(("kind", "padding"), [("causal", 0), ("causal", None), ("translation", 0)])
def test_greedy_generation_is_repeated_argmax(kind: str, padding: int | None) -> None:
    """The oracle of the oracle: plain forward calls without `generate`. Without a token for padding, 0 is a token."""
    model, (ids, mask) = made(kind, "macaron", pad_token_id=padding, eos_token_id=None), padded(kind)
    mask = torch.ones_like(mask) if padding is None else mask
    expected = ids if kind == "causal" else torch.ones(3, 1, dtype=torch.long)
    for _ in range(NEW):
        state = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": expected}
        if kind == "causal":
            new = torch.ones(3, expected.shape[1] - ids.shape[1], dtype=torch.long)
            state = {"input_ids": expected, "attention_mask": torch.cat((mask, new), 1)}
        expected = torch.cat((expected, model(**state, use_cache=False).logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(generated(model, ids, mask, True, **GREEDY).sequences, expected)


@pytest.mark.parametrize("use_cache", [True, False])
def test_generating_past_the_learned_positions_is_one_clear_error(use_cache: bool) -> None:
    ids, _ = padded("causal")
    how = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False, "use_cache": use_cache}
    with pytest.raises(ValueError, match=r"9 tokens are more than this model's max_positions=8 learned positions"):
        made("causal", "lie", max_positions=8).generate(ids, **how)
    assert made("causal", "lie", max_positions=8, positions="rotary").generate(ids, **how).shape == (3, 11)


def test_training_mode_and_labels_build_no_cache() -> None:
    model = made("causal", "lie")
    tokens, _ = padded("causal")
    assert model(tokens).past_key_values is not None
    assert model(tokens, labels=tokens).past_key_values is None
    assert model(tokens, use_cache=False).past_key_values is None
    assert model.train()(tokens).past_key_values is None


@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_no_plans_are_made_for_keys_that_grow(kind: str) -> None:
    """cuDNN's attention is off inside generate(), and as it was afterwards, whatever happens."""
    seen = list[bool]()

    def stop(tokens: Tensor, scores: Tensor) -> Tensor:
        seen.append(torch.backends.cuda.cudnn_sdp_enabled())
        if tokens.shape[1] > 7:
            raise ArithmeticError
        return scores

    for before in (True, False):
        torch.backends.cuda.enable_cudnn_sdp(before)
        try:
            with pytest.raises(ArithmeticError):
                generated(made(kind, "lie"), *padded("causal"), True, **GREEDY, logits_processor=[stop])
            assert torch.backends.cuda.cudnn_sdp_enabled() == before
        finally:
            torch.backends.cuda.enable_cudnn_sdp(True)
    assert seen
    assert not any(seen)
