"""`generate` with a static cache compiles its decoding step by itself on a GPU, and says the same words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import left_mask, right_mask, tiny, tokens

HOW: dict[str, Any] = dict(max_new_tokens=6, do_sample=False)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("scheme", ["lie", "macaron", "strang-midpoint", "reversible"])
def test_compiled_generation_says_what_uncached_generation_says(scheme: str, positions: str) -> None:
    torch.compiler.reset()
    model = tiny("causal", scheme, positions=positions).double().cuda()
    ids, mask = tokens().cuda(), left_mask().cuda()
    expected = model.generate(ids, attention_mask=mask, use_cache=False, **HOW)
    for _ in range(2):  # the second call finds the graph of the first
        found = model.generate(ids, attention_mask=mask, cache_implementation="static", **HOW)
        assert torch.equal(found, expected)


def test_a_translator_s_decoding_step_compiles_too() -> None:
    torch.compiler.reset()
    model = tiny("translation", "macaron", eos_token_id=None).double().cuda()
    ids, mask = tokens().cuda(), right_mask().cuda()
    expected = model.generate(ids, attention_mask=mask, use_cache=False, **HOW)
    assert torch.equal(model.generate(ids, attention_mask=mask, cache_implementation="static", **HOW), expected)
