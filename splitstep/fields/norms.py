"""Normalisations: inside a field (pre-norm), as a projection of the state (post-norm), or as a pull towards it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor, nn

from .context import FieldSpec, WithoutProducts

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "none": nn.Identity}


def norm(kind: str, width: int, eps: float = 1e-5, affine: bool = True) -> nn.Module:
    """The normalisation of this name: "layer", "rms" or "none"."""
    if kind not in NORMS:
        raise ValueError(f"Unknown norm {kind!r}: use one of {', '.join(NORMS)}.")
    return NORMS[kind](width, eps, elementwise_affine=affine)


class Projection(WithoutProducts):
    """x <- norm(x), a part N, M or P of a scheme."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.norm(x)


@final
class Stabiliser(WithoutProducts):
    """S(t, x) = gamma (norm(x) - x). With gamma h = 1 one Euler step is the projection N: x becomes norm(x)."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        self.norm, self.gamma = spec.projection(), spec.stabiliser

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return self.gamma * (self.norm(x) - x)
