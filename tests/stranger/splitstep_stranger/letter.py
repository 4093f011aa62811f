"""The letter G: damping towards zero, at a rate that is learned."""

from typing import Any

import torch
from torch import Tensor, nn

from splitstep.fields import FieldSpec
from splitstep.letters import Letter


class Damping(nn.Module):
    """G(t, x) = -softplus(a) x."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.zeros(spec.width))

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return -nn.functional.softplus(self.a) * x

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations in matrix products: none."""
        return 0


DAMPING = Letter("damping", "#3a7d44", backwards=False, field=Damping)
