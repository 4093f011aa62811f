"""A model as an initial-value problem: embed(inputs), one step of a scheme for each block, head(x)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from ..integrate import Event, State, Step, Time
from ..scheme import Scheme
from ..stack import Stack

Inputs = Mapping[str, Any] | Tensor


class Flow(ABC):
    """Any Transformer as stacks of steps: `flow.head(integrate(flow.scheme, flow.steps, flow.embed(inputs),
    flow.context(inputs)))` is what the model itself returns.

    `stacks` has all stacks by name, in the order in which they run; `scheme` and `steps` are those of the last, which
    is the decoder of an encoder-decoder. `notes` says what could not be taken apart, and why.
    """

    def __init__(self, model: nn.Module, stacks: Mapping[str, Stack], notes: Sequence[str] = ()) -> None:
        self.model, self.stacks, self.notes = model, dict(stacks), tuple(notes)

    @property
    def main(self) -> str:
        """The name of the stack that leads to the model's output."""
        return list(self.stacks)[-1]

    @property
    def scheme(self) -> Scheme:
        return self.stacks[self.main].scheme

    @property
    def steps(self) -> list[Step]:
        return self.stacks[self.main].steps()

    @abstractmethod
    def embed(self, inputs: Inputs) -> State:
        """The state before the first block."""

    @abstractmethod
    def context(self, inputs: Inputs) -> Any:
        """What the fields read beside the state: masks, positions, routing and so on, of a pass of these inputs."""

    @abstractmethod
    def head(self, x: State, context: Any = None) -> Tensor:
        """What the model returns for this state after the last block. What else it needs, such as the mask of a
        classifier, is of the pass of this context, or of the inputs that `context` was last given."""


class StateName(NamedTuple):
    """A state of the residual stream by the name that is usual for it."""

    name: str  # resid_pre, resid_mid or resid_post; the states of longer blocks are resid_mid.1, resid_mid.2, ..
    layer: int
    t: Time


def state_name(
    event: Event, scheme: Scheme, side: Literal["before", "after"] = "before", substeps: int = 1
) -> StateName:
    """The name of the state before or after a part: resid_pre at the start of a layer, resid_post at its end."""
    parts = len(scheme.plan[event.site.branch][1])
    layer, substep = divmod(event.site.step, substeps)
    number = event.site.part + (side == "after") + substep * parts
    t = event.t if side == "before" else event.t + event.h
    return StateName(part_name(number, substeps * parts), layer, t)


def part_name(number: int, parts: int) -> str:
    """The name of the state before part `number` of a layer; after the last one, `number` is `parts`."""
    if number in (0, parts):
        return "resid_post" if number else "resid_pre"
    return "resid_mid" if parts == 2 else f"resid_mid.{number}"


@dataclass
class Remembered:
    """The context of the last pass, for `head`."""

    context: Any = None

    def use(self, given: Any) -> Any:
        if (context := self.context if given is None else given) is None:
            raise ValueError("head needs a pass of the model: call flow.context(inputs) first, or pass its result")
        return context


class Stopped(Exception):
    """Ends a pass of which no more is needed."""
