"""Normalisations: inside a field (pre-norm) or as a projection of the state (post-norm)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

NORMS = ("layer", "rms", "none")


def norm(kind: str, width: int, eps: float = 1e-5, affine: bool = True) -> nn.Module:
    """The normalisation of this name: "layer", "rms" or "none"."""
    if kind == "layer":
        return nn.LayerNorm(width, eps, elementwise_affine=affine)
    if kind == "rms":
        return nn.RMSNorm(width, eps, elementwise_affine=affine)
    if kind == "none":
        return nn.Identity()
    raise ValueError(f"Unknown norm {kind!r}: use one of {', '.join(NORMS)}.")


class Projection(nn.Module):
    """x <- norm(x), a part N, M or P of a scheme."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.norm(x)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations in matrix products of one evaluation: none."""
        return 0
