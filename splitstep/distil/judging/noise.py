"""Gumbel noise as a function of a key, a step and a token, so that a sample depends on nothing else.

The likeliest token after adding Gumbel noise to the log probabilities is a sample from them. The noise is computed by
hashing counters (splitmix64), the same on every device and for every batch, and the same for all models of a
tokenizer: their answers differ by what the models say, and less by chance.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

STEP, TOKEN = 0x9E3779B97F4A7C15 - 2**64, 0xD1B54A32D192ED03 - 2**64  # odd numbers, as signed 64-bit integers
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64  # of splitmix64
BITS = 53  # of a double's mantissa


def key_of(seed: int, text: str) -> int:
    """A signed 64-bit key for a seed and a text."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "little", signed=True)


def gumbel(keys: Tensor, step: int, tokens: int) -> Tensor:
    """Gumbel noise [B, V] in float64 for keys [B] at one step."""
    rows = mixed(keys + wrapped(step * STEP))[:, None]
    bits = mixed(rows + torch.arange(tokens, device=keys.device) * TOKEN)
    uniform = (shifted(bits, 64 - BITS).double() + 0.5) / 2**BITS
    return -(-uniform.log()).log()


def mixed(x: Tensor) -> Tensor:
    """splitmix64's finaliser."""
    x = (x ^ shifted(x, 30)) * FIRST
    x = (x ^ shifted(x, 27)) * SECOND
    return x ^ shifted(x, 31)


def shifted(x: Tensor, by: int) -> Tensor:
    """x moved right by so many bits, with zeros from the left; torch has signed numbers only."""
    return (x >> by) & (2 ** (64 - by) - 1)


def wrapped(x: int) -> int:
    """A whole number modulo 2^64, as a signed one."""
    return (x + 2**63) % 2**64 - 2**63
