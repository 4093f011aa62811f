"""What a probe is: an object made for one pass through a stack, called with its events, and then asked for figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..integrate import Event
from ..stack import Stack

Figures = Mapping[str, tuple[float, ...] | Tensor]
"""Series of numbers by name, such as a field's with one number for each layer, and tensors."""


class Pass(NamedTuple):
    """One completed pass through a stack: the model, its inputs (and labels), the stack's name, the state at the end,
    and what the model returned (with the loss, if there are labels)."""

    model: nn.Module
    batch: Mapping[str, Any]
    stack: str
    x: Tensor
    output: Any
    real: Tensor | None = None  # [B, T], False for padding; None: no token is padding
    gradients: tuple[Tensor, ...] = ()  # of the loss by what `sources` has returned


class Probe(ABC):
    """One measurement of one pass. It must not change what it sees.

    All probes share one forward pass. It is differentiated if one of them declares `gradients`, and one backward pass
    gives the gradients by all their `sources`.
    """

    gradients: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, event: Event) -> None:
        """See one part of one step."""

    def sources(self, passed: Pass) -> Sequence[Tensor]:
        """The tensors of this pass by which the loss is to be differentiated, if the probe declares `gradients`."""
        return ()

    @abstractmethod
    def figures(self, passed: Pass) -> Figures:
        """What was measured, after the pass."""


class LayerStates(Probe):
    """A probe that keeps the state at the start of each step; of a doubled one, the mean of its halves."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []

    def __call__(self, event: Event) -> None:
        if begins_step(event):
            self.kept.append(event.before.detach())

    def states(self, passed: Pass) -> list[Tensor]:
        """The states at the start of each layer and, last, at the end of the stack."""
        return [*self.kept[:: stack_of(passed).substeps], passed.x.detach()]


def begins_step(event: Event) -> bool:
    """Whether the event is the first of its step: an averaged scheme has several branches."""
    return event.site[1:] == (0, 0, 0)


def stack_of(passed: Pass) -> Stack:
    """The stack that was passed through."""
    stack = passed.model.get_submodule(passed.stack)
    assert isinstance(stack, Stack)
    return stack


def wide(x: Tensor) -> torch.dtype:
    """The type to sum in: float64 where the device has it, so squares of large numbers stay finite."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def lengths(x: Tensor) -> Tensor:
    """The length of each vector of a state."""
    return torch.linalg.vector_norm(x.detach(), dim=-1, dtype=wide(x))


def mean_over(values: Tensor, real: Tensor | None) -> Tensor:
    """The mean of a number for each token, [.., B, T], over those that are no padding."""
    if real is None:
        return values.mean((-2, -1)) if values.ndim > 1 else values.mean()
    return torch.where(real, values, 0).sum((-2, -1)) / real.sum()


def numbers(values: Sequence[Tensor] | Tensor) -> tuple[float, ...]:
    """Numbers on the device as a series; only here the device is waited for."""
    together = values if isinstance(values, Tensor) else torch.stack(list(values))
    return tuple(together.detach().flatten().tolist())
