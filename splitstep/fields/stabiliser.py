"""The pull towards the normalised state, S(x) = gamma (norm(x) - x)."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor, nn

from .context import FieldSpec


@final
class Stabiliser(nn.Module):
    """S(t, x) = gamma (norm(x) - x). With gamma h = 1 one Euler step is the projection N: x becomes norm(x)."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.norm, self.gamma = spec.projection(), spec.stabiliser

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return self.gamma * (self.norm(x) - x)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation in matrix products: none."""
        return 0
