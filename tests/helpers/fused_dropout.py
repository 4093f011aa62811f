"""Samples and networks for tests of dropout as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

import splitstep as ss
from splitstep.kernels.dropout import FUSED, formula

CASES = [(0, 0, 0.1), (1, 5, 0.3), (2**31 - 2, 41, 0.5), (123456789, 3, 0.9)]


def bits(x: Tensor) -> Tensor:
    """x as integers: zeros have signs."""
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def views(device: str, dtype: torch.dtype) -> Iterator[Tensor]:
    """One block and several, full and not; none, one; in order, out of order, out of line, repeated; tiny numbers."""
    for shape in [(3, 5, 70), (2, 16, 64), (1023,), (1025,), (1,), (0, 4)]:
        yield torch.randn(shape, device=device).to(dtype)
    x = torch.randn(9, 6, 50, device=device).to(dtype)
    yield from (x.transpose(0, 2), x[:, 1::2], x.flatten()[1:], x[:1].expand(4, 6, 50))
    yield torch.linspace(-4, 4, 99, device=device).to(dtype) * torch.finfo(dtype).smallest_normal


def agree(multiply: Callable[..., Tensor], device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself; a type that is truncated may be off by two roundings, and by more below normal numbers."""
    for dtype in FUSED:
        for x in views(device, dtype):
            for (seed, salt, p), kind in product(CASES, (torch.int32, torch.int64)):
                there = torch.tensor(seed, device=device, dtype=kind)
                found, expected = multiply(x, p, there, salt), formula(x, p, there, salt)
                assert found.is_contiguous()
                if dtype in truncates:
                    size = torch.finfo(dtype)
                    torch.testing.assert_close(found, expected, rtol=2 * size.eps, atol=16 * size.smallest_normal)
                else:
                    assert torch.equal(bits(found), bits(expected))
        huge = torch.tensor([torch.inf, -torch.inf, torch.nan, torch.finfo(dtype).max] * 20, device=device).to(dtype)
        found, expected = (f(huge, 0.5, torch.tensor(3, device=device), 1) for f in (multiply, formula))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def reversible(device: str = "cpu") -> ss.SplitstepForCausalLM:
    torch.manual_seed(0)
    config = ss.CausalConfig(
        scheme="reversible", layers=1, width=32, heads=2, ffn=64, vocab_size=32, dropout=0.1, attention_dropout=0.1,
        activation_dropout=0.1,
    )  # fmt: skip
    return ss.SplitstepForCausalLM(config).to(device).train()


def gradients(network: ss.SplitstepForCausalLM, call: Callable[..., Any], half: bool = False) -> list[Tensor]:
    """The loss and its gradients."""
    device = network.device
    ids = torch.randint(32, (2, 8), generator=torch.Generator().manual_seed(1)).to(device)
    network.zero_grad()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=half):
        loss = call(ids, labels=ids, dropout_seed=torch.tensor(7, device=device)).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in network.parameters() if p.grad is not None)]
