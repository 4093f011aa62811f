"""One pass through the main stack of a flow, watched by several probes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..integrate import Event, State, integrate
from ..stack import Stack
from .probe import Figures, Pass, Probe
from .watching import real_tokens


@runtime_checkable
class Observable(Protocol):
    """A model as stacks of steps, such as `splitstep.pretrained.load` returns."""

    stacks: Mapping[str, Stack]

    @property
    def main(self) -> str:
        """The name of the stack that leads to the output."""
        ...

    def embed(self, inputs: Any) -> State: ...
    def context(self, inputs: Any) -> Any: ...
    def head(self, x: State, context: Any = None) -> Tensor: ...


def watch_flow(
    flow: Observable, batch: Mapping[str, Any], probes: Mapping[str, Probe]
) -> dict[str, dict[str, Figures]]:
    """What the probes find in the main stack, by the names of probe and stack."""
    if asking := [name for name, probe in probes.items() if probe.gradients]:
        raise ValueError(f'probe "{asking[0]}" differentiates the loss, which a flow does not have: observe the model')
    stack = flow.stacks[flow.main]
    inputs = {name: x for name, x in batch.items() if name != "labels"}

    def see(event: Event) -> None:
        for probe in probes.values():
            probe(event)

    with torch.no_grad():
        context = flow.context(inputs)
        end = integrate(stack.scheme, stack.steps(), flow.embed(inputs), context, see)
        output = flow.head(end, context)
    x = (end[0] + end[1]) / 2 if stack.scheme.doubled else end
    home = nested(flow.main, stack)
    passed = Pass(home, batch, flow.main, x, output, real_tokens(batch, x, "decoder_input_ids" in batch))
    return {name: {flow.main: probe.figures(passed)} for name, probe in probes.items()}


def nested(name: str, stack: Stack) -> nn.Module:
    """A module that has the stack under this dotted name, as a model of ours does."""
    found: nn.Module = stack
    for part in reversed(name.split(".")):
        found = nn.ModuleDict({part: found})
    return found
