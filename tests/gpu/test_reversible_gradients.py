"""Rebuilt states on a GPU, where an error would have to wait for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import splitstep as ss


class Dropped(nn.Module):
    """A field that is not a pure function: it draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(16, 16), nn.Dropout(0.5)

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.dropout(self.linear(x))


@pytest.mark.parametrize("frozen", [False, True])
def test_states_that_were_not_rebuilt_make_gradients_nan(frozen: bool) -> None:
    stack = ss.Stack(ss.scheme("reversible"), 4, lambda name, layer: Dropped()).cuda().train()
    x = torch.randn(2, 3, 16, device="cuda", requires_grad=not frozen)
    stack(x).sum().backward()
    assert any(p.grad is not None and p.grad.isnan().any() for p in stack.parameters())
    assert frozen or x.grad.isnan().all()  # pyright: ignore
