"""What moves each particle alone: the feed-forward network, F(x) = W2 act(W1 norm(x)), and normalisations: inside a
field (pre-norm), as a projection of the state (post-norm), or as a pull towards it."""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..kernels.dropout import dropout
from ..letters import StabiliserOptions
from .context import Context, FieldSpec, WithoutProducts

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "relu2": lambda x: functional.relu(x).square(),
    "silu": functional.silu,
    "swiglu": functional.silu,  # applied to one half of W1's output, which gates the other
    "geglu": functional.gelu,  # likewise
}
GATED = ("swiglu", "geglu")


@final
class DynamicTanh(nn.Module):
    """gain * tanh(a x) + shift in the place of a norm, with one a for all entries of x."""

    START = 0.5  # of a

    def __init__(self, width: int, eps: float = 0.0, elementwise_affine: bool = True) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.empty(1))
        self.weight = nn.Parameter(torch.empty(width)) if elementwise_affine else None
        self.bias = nn.Parameter(torch.empty(width)) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As at the start of training: tanh(x / 2)."""
        for x, start in ((self.a, self.START), (self.weight, 1.0), (self.bias, 0.0)):
            if x is not None:
                nn.init.constant_(x, start)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.a * x)
        return y if self.weight is None or self.bias is None else y * self.weight + self.bias


NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm, "rms": nn.RMSNorm, "tanh": DynamicTanh, "none": nn.Identity,
}  # fmt: skip


class FeedForward(nn.Module):
    """F(t, x) = W2 act(W1 norm(x)); "swiglu" is W2 (silu(W1 norm(x)) * V norm(x)), with W1 and V in one matrix, and
    "geglu" the same with gelu."""

    def __init__(self, spec: FieldSpec) -> None:
        super().__init__()
        if spec.activation not in ACTIVATIONS:
            raise ValueError(f"Unknown activation {spec.activation!r}: use one of {', '.join(ACTIVATIONS)}.")
        assert spec.ffn is not None
        self.norm, self.output_norm = spec.norm(), spec.output_norm()
        self.gated = spec.activation in GATED
        self.act = ACTIVATIONS[spec.activation]
        self.up = nn.Linear(spec.width, spec.ffn * (2 if self.gated else 1), spec.bias)
        self.down = nn.Linear(spec.ffn, spec.width, spec.bias)
        self.p, self.p_act, self.salt = spec.dropout, spec.activation_dropout, spec.salt

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        seed = None if context is None else context.seed
        y = self.up(self.norm(x))
        if self.gated:
            gate, y = y.chunk(2, -1)
            y = self.act(gate) * y
        else:
            y = self.act(y)
        y = dropout(y, self.p_act, seed, 4 * self.salt)
        return dropout(self.output_norm(self.down(y)), self.p, seed, 4 * self.salt + 1)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens."""
        return 2 * length * (self.up.weight.numel() + self.down.weight.numel())


def norm(kind: str, width: int, eps: float = 1e-5, affine: bool = True) -> nn.Module:
    """The normalisation of this name: "layer", "rms", "tanh" or "none"."""
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
        self.norm, self.gamma = spec.projection(), (spec.options or StabiliserOptions()).gamma

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return self.gamma * (self.norm(x) - x)
