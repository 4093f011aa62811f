"""A letter of somebody's own, as a file that `--letters` names."""

from typing import Any

import torch
from torch import Tensor, nn

import splitstep as ss


@ss.letter("G", "damping", "#3a7d44", backwards=False)
class Damping(nn.Module):
    """G(t, x) = -softplus(a) x."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(spec.width))

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return -nn.functional.softplus(self.a) * x

    def flops(self, length: int, memory: int) -> int:
        return 0
