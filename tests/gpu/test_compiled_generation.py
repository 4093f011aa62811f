"""`generate` with a static cache compiles its decoding step by itself on a GPU, and says the same words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import left_mask, right_mask, tiny, tokens

HOW: dict[str, Any] = dict(max_new_tokens=6, do_sample=False)


CASES = [
    *(("causal", scheme, "learned") for scheme in ("lie", "macaron", "strang-midpoint", "reversible")),
    *(("causal", scheme, "rotary") for scheme in ("lie", "macaron", "strang-midpoint", "reversible")),
    ("translation", "macaron", "sinusoidal"),
]


@pytest.mark.parametrize(("kind", "scheme", "positions"), CASES)
def test_compiled_generation_says_what_uncached_generation_says(kind: str, scheme: str, positions: str) -> None:
    torch.compiler.reset()
    model = tiny(kind, scheme, positions=positions, eos_token_id=None).double().cuda()
    ids, mask = tokens().cuda(), (left_mask() if kind == "causal" else right_mask()).cuda()
    expected = model.generate(ids, attention_mask=mask, use_cache=False, **HOW)
    for _ in range(2):  # the second call finds the graph of the first
        found = model.generate(ids, attention_mask=mask, cache_implementation="static", **HOW)
        assert torch.equal(found, expected)
