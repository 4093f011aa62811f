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
from splitstep.models.body import sinusoids

NEW = 8
GREEDY: dict[str, Any] = {"do_sample": False}
BEAMS: dict[str, Any] = {"do_sample": False, "num_beams": 3}
SAMPLE: dict[str, Any] = {"do_sample": True, "top_k": 0, "temperature": 1.0}
MODES = {"greedy": GREEDY, "beams": BEAMS, "sampling": SAMPLE}


def causal(scheme: str, **more: Any) -> Any:
    return tiny("causal", scheme, **more).double()


def translation(scheme: str, **more: Any) -> Any:
    return tiny("translation", scheme, **more).double()


def left_padded() -> tuple[Tensor, Tensor]:
    """Prompts of 5, 2 and 4 tokens."""
    return drawn(2, length=5) * left_mask(5), left_mask(5)


def right_padded() -> tuple[Tensor, Tensor]:
    """Sources of 6, 3 and 5 tokens."""
    return drawn(8, length=6) * right_mask(6), right_mask(6)


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


@pytest.mark.parametrize(("scheme", "positions", "kv_heads", "head_size"), [
    ("lie", "learned", None, None),
    ("lie", "none", 1, 6),
    ("macaron", "rotary", 2, None),
    ("lie-postnorm", "sinusoidal", None, None),
    ("strang-midpoint", "rotary", 1, 6),
    ("strang-midpoint", "sinusoidal", 2, None),
    ("reversible", "learned", 2, None),
    ("reversible", "rotary", None, None),
])  # fmt: skip
def test_a_causal_model_generates_the_same_with_a_cache(
    scheme: str, positions: str, kv_heads: int | None, head_size: int | None
) -> None:
    """Whatever its positions, with shared keys and heads of a free size."""
    model = causal(scheme, positions=positions, kv_heads=kv_heads, head_size=head_size)
    ids, mask = left_padded()
    for how in MODES.values():
        cached, plain = (generated(model, ids, mask, use_cache, **how) for use_cache in (True, False))
        assert_same(cached, plain)
        assert_lively(plain.sequences, ids.shape[1])
        assert isinstance(cached.past_key_values, DynamicCache)
        layers = cached.past_key_values.layers
        assert len(layers) == 2 * model.body.stack.scheme.count("A")  # one per evaluation of attention
        assert {layer.keys.shape[1:] for layer in layers} == {(kv_heads or 4, ids.shape[1] + NEW - 1, head_size or 4)}


@pytest.mark.parametrize("scheme", ["macaron", "lie-postnorm", "strang-midpoint", "reversible"])
def test_a_translator_generates_the_same_with_a_cache(scheme: str) -> None:
    model = translation(scheme)
    ids, mask = right_padded()
    for how in MODES.values():
        cached, plain = (generated(model, ids, mask, use_cache, **how) for use_cache in (True, False))
        assert_same(cached, plain)
        assert_lively(plain.sequences, 1)
        assert isinstance(cached.past_key_values, EncoderDecoderCache)
        caches = (cached.past_key_values.self_attention_cache, cached.past_key_values.cross_attention_cache)
        for letter, cache in zip("AC", caches, strict=True):
            assert len(cache.layers) == 2 * model.decoder.stack.scheme.count(letter)
        assert all(layer.keys.shape[-2] == 6 for layer in caches[1].layers)  # the source, once


def test_beams_share_the_keys_of_their_source() -> None:
    """What transformers would copy in every step stays where it is; the target's keys do move."""
    cache = generated(translation("macaron"), *right_padded(), True, **BEAMS).past_key_values
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
    model = translation("lie", max_positions=4, width=width, heads=1).float()
    model.save_pretrained(tmp_path)
    loaded = ss.SplitstepForTranslation.from_pretrained(tmp_path).eval()
    assert torch.equal(model.encoder.embedding.sinusoids, sinusoids(torch.arange(4), width))
    tokens, mask = right_padded()
    longer = translation("lie", max_positions=64, width=width, heads=1).float()
    longer.load_state_dict(model.state_dict())
    for short in (3, 6):
        given = {"input_ids": tokens[:, :short], "attention_mask": mask[:, :short], "decoder_input_ids": tokens}
        found = [each(**given).logits for each in (model, loaded, longer)]
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(("kind", "padding"), [("causal", 0), ("causal", None), ("translation", 0)])
def test_greedy_generation_is_repeated_argmax(kind: str, padding: int | None) -> None:
    """The oracle of the oracle: plain forward calls without `generate`. Without a token for padding, 0 is a token."""
    made = {"causal": causal, "translation": translation}[kind]("macaron", pad_token_id=padding, eos_token_id=None)
    ids, mask = left_padded() if kind == "causal" else right_padded()
    mask = torch.ones_like(mask) if padding is None else mask
    expected = ids if kind == "causal" else torch.ones(3, 1, dtype=torch.long)
    for _ in range(NEW):
        state = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": expected}
        if kind == "causal":
            new = torch.ones(3, expected.shape[1] - ids.shape[1], dtype=torch.long)
            state = {"input_ids": expected, "attention_mask": torch.cat((mask, new), 1)}
        expected = torch.cat((expected, made(**state, use_cache=False).logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(generated(made, ids, mask, True, **GREEDY).sequences, expected)


@pytest.mark.parametrize("use_cache", [True, False])
def test_generating_past_the_learned_positions_is_one_clear_error(use_cache: bool) -> None:
    ids, _ = left_padded()
    how = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 6, "do_sample": False, "use_cache": use_cache}
    with pytest.raises(ValueError, match=r"9 tokens are more than this model's max_positions=8 learned positions"):
        causal("lie", max_positions=8).generate(ids, **how)
    assert causal("lie", max_positions=8, positions="rotary").generate(ids, **how).shape == (3, 11)


def test_training_mode_and_labels_build_no_cache() -> None:
    model = causal("lie")
    tokens, _ = left_padded()
    assert model(tokens).past_key_values is not None
    assert model(tokens, labels=tokens).past_key_values is None
    assert model(tokens, use_cache=False).past_key_values is None
    assert model.train()(tokens).past_key_values is None


@pytest.mark.parametrize("make", [causal, translation])
def test_no_plans_are_made_for_keys_that_grow(make: Any) -> None:
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
                generated(make("lie"), *left_padded(), True, **GREEDY, logits_processor=[stop])
            assert torch.backends.cuda.cudnn_sdp_enabled() == before
        finally:
            torch.backends.cuda.enable_cudnn_sdp(True)
    assert seen
    assert not any(seen)
