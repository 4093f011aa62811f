"""Gumbel noise by Python's own integers, and samples for tests of it as one kernel."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from splitstep.kernels.gumbel import formula

MASK = 2**64 - 1
KEYS = (0, 1, -1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF, -0x7EDCBA9876543210)


def splitmix(x: int) -> int:
    """splitmix64's finaliser."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def uniform(key: int, step: int, token: int) -> float:
    row = splitmix((key + step * 0x9E3779B97F4A7C15) & MASK)
    return ((splitmix((row + token * 0xD1B54A32D192ED03) & MASK) >> 11) + 0.5) / 2**53


def agree(add: Callable[[Tensor, Tensor, int, float], Tensor], device: str) -> None:
    """The claim itself: the noise to twelve digits, and the same token chosen."""
    for (rows, tokens), step in product([(1, 1), (3, 5), (2, 1024), (7, 1025), (5, 49_157)], (0, 1, 16, 255)):
        keys = torch.tensor([KEYS[row % len(KEYS)] + row // len(KEYS) for row in range(rows)], device=device)
        wide = torch.randn(rows, tokens + 7, device=device) * 4
        wide[:, tokens // 2 + 1 :: 5] = -torch.inf  # as top-p leaves them
        for scores in (wide[:, :tokens], wide[:, :tokens].double().contiguous(), wide.t()[:tokens].contiguous().t()):
            for temperature in (1.0, 0.7):
                found, expected = (f(scores, keys, step, temperature) for f in (add, formula))
                assert found.is_contiguous()
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
                assert torch.equal(found.argmax(-1), expected.argmax(-1))
        noise = [f(torch.zeros(rows, tokens, device=device), keys, step, 1.0) for f in (add, formula)]
        torch.testing.assert_close(*noise, rtol=1e-12, atol=1e-15)
