"""What a probe is: an object made for one pass through a stack, called with its events, and then asked for figures."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..flows.passes import ForeignPass
from ..integrate import Event
from ..stack import Stack

Figures = Mapping[str, tuple[float, ...] | Tensor]
"""Series of numbers by name, such as a field's with one number for each layer, and tensors."""


class Pass(NamedTuple):
    """One completed pass through a stack: the model, its inputs (and labels), the stack and its name, the state at the
    end, and what the model returned (with the loss, if there are labels)."""

    model: nn.Module
    batch: Mapping[str, Any]
    name: str
    stack: Stack
    x: Tensor
    output: Any
    real: Tensor | None = None  # [B, T], False for padding; None: no token is padding
    gradients: tuple[Tensor, ...] = ()  # of the loss by what `sources` has returned
    shared: dict[str, Any] | None = None  # what one probe worked out and others of this pass may use; None: nothing is
    head: Callable[[Tensor], Tensor] | None = None  # the logits [n, T, vocabulary] of states of the first n examples


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
        return [*self.kept[:: passed.stack.substeps], passed.x.detach()]


def begins_step(event: Event) -> bool:
    """Whether the event is the first of its step: an averaged scheme has several branches."""
    return event.site[1:] == (0, 0, 0)


def wide(x: Tensor) -> torch.dtype:
    """The type to sum in: float64 where the device has it, so squares of large numbers stay finite."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def lengths(x: Tensor) -> Tensor:
    """The length of each vector of a state."""
    return torch.linalg.vector_norm(x.detach(), dim=-1, dtype=wide(x))


def mean_over(values: Tensor, real: Tensor | None) -> Tensor:
    """The mean of a number for each token, [.., B, T], over those that are not padding."""
    if real is None:
        return values.mean((-2, -1)) if values.ndim > 1 else values.mean()
    return torch.where(real, values, 0).sum((-2, -1)) / real.sum()


def rows_of(context: Any, batch: int, rows: Sequence[int]) -> Any:
    """The context of some examples of a batch; one may come several times."""
    if isinstance(context, ForeignPass):
        return context.of_examples(rows)

    def one(value: Any) -> Any:
        return value[list(rows)] if isinstance(value, Tensor) and value.ndim and len(value) == batch else value

    return tree_map(one, context) if list(rows) != list(range(batch)) else context


def over_texts(name: str, values: Tensor) -> dict[str, tuple[float, ...]]:
    """A series of means over texts, of numbers [layers, texts], and " spread": their standard deviation over texts,
    which is not a number for a single one."""
    wide = values.detach().double()
    deviation = wide.std(1) if wide.shape[1] > 1 else torch.full_like(wide[:, 0], torch.nan)
    return {name: numbers(wide.mean(1)), f"{name} spread": numbers(deviation)}


def named_over_texts(names: Sequence[str], values: Tensor) -> dict[str, tuple[float, ...]]:
    """The same for several series of numbers [layers, texts, names]."""
    columns = zip(names, values.unbind(-1), strict=True)
    return {key: series for name, one in columns for key, series in over_texts(name, one).items()}


def texts_of(x: Tensor, real: Tensor | None, most: int) -> list[Tensor]:
    """The real tokens [n, ..] of each of the first texts of states [B, T, ..]; texts that are all padding are left
    out."""
    if real is None:
        return list(x[:most])
    return [one[mask] for one, mask in zip(x[:most], real[:most], strict=True) if bool(mask.any())]


def numbers(values: Sequence[Tensor] | Tensor) -> tuple[float, ...]:
    """Numbers on the device as a series; only here the device is waited for."""
    together = values if isinstance(values, Tensor) else torch.stack(list(values))
    return tuple(together.detach().flatten().tolist())
