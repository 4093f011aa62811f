"""The local reaction: F(x) = W2 act(W1 norm(x)), each particle alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from ..kernels.dropout import dropout
from .context import Context

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": partial(functional.gelu, approximate="tanh"),
    "swiglu": functional.silu,  # gates a second half of W1's output
}


class FeedForward(nn.Module):
    """F(t, x) = W2 act(W1 norm(x)); "swiglu" is W2 (silu(W1 norm(x)) * V norm(x)), with W1 and V in one matrix."""

    def __init__(
        self,
        norm: nn.Module,
        width: int,
        inner: int,
        activation: str = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
        activation_dropout: float = 0.0,
        salt: int = 0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"Unknown activation {activation!r}: use one of {', '.join(ACTIVATIONS)}.")
        self.norm = norm
        self.gated = activation == "swiglu"
        self.act = ACTIVATIONS[activation]
        self.up = nn.Linear(width, inner * (2 if self.gated else 1), bias)
        self.down = nn.Linear(inner, width, bias)
        self.p, self.p_act, self.salt = dropout, activation_dropout, salt

    def forward(self, t: Any, x: Tensor, context: Context | None = None) -> Tensor:
        seed = None if context is None else context.seed
        y = self.up(self.norm(x))
        if self.gated:
            gate, y = y.chunk(2, -1)
            y = self.act(gate) * y
        else:
            y = self.act(y)
        y = dropout(y, self.p_act, seed, 4 * self.salt)
        return dropout(self.down(y), self.p, seed, 4 * self.salt + 1)

    def flops(self, length: int, memory: int) -> int:
        """Floating-point operations of one evaluation on `length` tokens."""
        weights = self.up.in_features * self.up.out_features + self.down.in_features * self.down.out_features
        return 2 * length * weights
