"""Normalisations: inside a field (pre-norm) or as a projection of the state (post-norm)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "none": nn.Identity}


def norm(kind: str, width: int, eps: float = 1e-5, affine: bool = True) -> nn.Module:
    """The normalisation of this name: "layer", "rms" or "none"."""
    if kind not in NORMS:
        raise ValueError(f"Unknown norm {kind!r}: use one of {', '.join(NORMS)}.")
    return NORMS[kind](width, eps, elementwise_affine=affine)


class Projection(nn.Module):
    """x <- norm(x), a part N, M or P of a scheme."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.norm(x)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation in matrix products: none."""
        return 0
