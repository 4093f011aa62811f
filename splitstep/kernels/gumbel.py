"""Gumbel noise as a function of a key, a step and a token, so that a sample depends on nothing else.

The likeliest token after adding Gumbel noise to the log probabilities is a sample from them. The noise is computed by
hashing counters (splitmix64), the same on every device and for every batch, and the same for all models of a
tokenizer: their answers differ by what the models say, and less by chance.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .fusing import FastKernel

STEP, TOKEN = 0x9E3779B97F4A7C15 - 2**64, 0xD1B54A32D192ED03 - 2**64  # odd numbers, as signed 64-bit integers
FIRST, SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64  # of splitmix64
BITS = 53  # of a double's mantissa


def gumbel(keys: Tensor, step: int, tokens: int) -> Tensor:
    """Gumbel noise [B, V] in float64 for keys [B] at one step."""
    rows = mix(keys + wrapped(step * STEP))[:, None]
    bits = mix(rows + torch.arange(tokens, device=keys.device) * TOKEN)
    uniform = shifted(bits, 64 - BITS).double().add_(0.5).div_(2**BITS)
    return uniform.log_().neg_().log_().neg_()


def mix(x: Tensor) -> Tensor:
    """splitmix64's finaliser, in place: a large vocabulary makes large tensors."""
    x.bitwise_xor_(shifted(x, 30)).mul_(FIRST)
    x.bitwise_xor_(shifted(x, 27)).mul_(SECOND)
    return x.bitwise_xor_(shifted(x, 31))


def shifted(x: Tensor, by: int) -> Tensor:
    """x moved right by so many bits, with zeros from the left; torch has signed numbers only."""
    return (x >> by).bitwise_and_(2 ** (64 - by) - 1)


def wrapped(x: int) -> int:
    """A whole number modulo 2^64, as a signed one."""
    return (x + 2**63) % 2**64 - 2**63


def formula(scores: Tensor, keys: Tensor, step: int, temperature: float) -> Tensor:
    """`add_gumbel` by PyTorch's own operations."""
    return gumbel(keys, step, scores.shape[-1]).add_(scores.double() / temperature)


def check(add: Callable[..., Tensor], kind: str) -> None:
    """An error unless the kernel does as the formula does, on several blocks, the last not full, and on strides."""
    keys = torch.tensor([-(2**63), -1, 0, 2**63 - 1], device=kind)
    scores = torch.linspace(-9, 9, 4 * 5003, device=kind).view(4, -1)
    for step, temperature in ((0, 1.0), (255, 0.7)):
        for sample in (scores, scores.double()[:, 1:]):
            expected = formula(sample, keys, step, temperature)
            torch.testing.assert_close(add(sample, keys, step, temperature), expected, rtol=1e-12, atol=1e-12)


# PyTorch's own operations are about twenty-five kernels for each token of an answer, over large tensors.
kernel = FastKernel("sampling", "triton_kernels:add", check)


def add_gumbel(scores: Tensor, keys: Tensor, step: int, temperature: float = 1.0) -> Tensor:
    """Scores [B, V] over the temperature, plus the noise of keys [B] at one step, in float64."""
    return (kernel(scores.device.type) or formula)(scores, keys, step, temperature)
