"""Gumbel noise is that of splitmix64, bit for bit."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from kernel_cases import KEYS, uniform

from splitstep.kernels.gumbel import add_gumbel, gumbel


@pytest.mark.parametrize("step", [0, 1, 255, 2**40])
@pytest.mark.parametrize("tokens", [1, 7, 333])
def test_the_noise_has_the_bits_of_pythons_integers(step: int, tokens: int) -> None:
    keys = torch.tensor(KEYS)
    drawn = torch.tensor([[uniform(key, step, token) for token in range(tokens)] for key in KEYS], dtype=torch.float64)
    assert torch.equal(gumbel(keys, step, tokens), -(-drawn.log()).log())
    assert keys.tolist() == list(KEYS)  # the noise is computed in place, but not there


@pytest.mark.parametrize(("dtype", "temperature"), list(product([torch.float32, torch.float64], [1.0, 0.7])))
def test_scores_are_over_the_temperature_and_stay_as_they_are(dtype: torch.dtype, temperature: float) -> None:
    keys, scores = torch.tensor(KEYS), torch.randn(len(KEYS), 50, dtype=dtype)
    before = scores.clone()
    assert torch.equal(add_gumbel(scores, keys, 3, temperature), before.double() / temperature + gumbel(keys, 3, 50))
    assert torch.equal(scores, before)
