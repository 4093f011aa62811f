"""The letter G: damping towards zero, at a rate that is learned. And W, which sees later tokens and padding."""

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


class Window(nn.Module):
    """W(t, x): a convolution that is centred in causal models, too, and takes padding for tokens."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.taps = nn.Conv1d(spec.width, spec.width, 3, padding=1, groups=spec.width)

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return self.taps(x.mT).mT

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations in matrix products."""
        return 2 * length * self.taps.weight.numel()


WINDOW = Letter("window", "#3a7d44", field=Window, mixes=True)
