"""One pass through the main stack of a flow, watched by several probes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..integrate import Event, State, integrate
from ..stack import Stack
from .probe import Figures, Pass, Probe, rows_of
from .watching import real_tokens


@runtime_checkable
class Observable(Protocol):
    """A model as stacks of steps, such as `splitstep.opening.load` returns."""

    model: nn.Module
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
        raise ValueError(f'probe "{asking[0]}" differentiates the loss, which a flow does not have: leave it out')
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
    real = real_tokens(batch, x, "decoder_input_ids" in batch)
    head = head_on(flow, context, len(x)) if is_vocabulary(flow.model, output, x) else None
    passed = Pass(flow.model, inputs, flow.main, stack, x, output, real, shared={}, head=head)
    return {name: {flow.main: probe.figures(passed)} for name, probe in probes.items()}


def head_on(flow: Observable, context: Any, batch: int) -> Callable[[Tensor], Tensor]:
    """The flow's head on states [n, T, width] of the first n examples of this pass."""
    doubled = flow.stacks[flow.main].scheme.doubled

    def head(x: Tensor) -> Tensor:
        return flow.head((x, x) if doubled else x, rows_of(context, batch, range(len(x))))

    return head


def is_vocabulary(model: Any, output: Tensor, x: Tensor) -> bool:
    """Whether the output has a number for each token of the vocabulary: as many as an embedding has rows."""
    rows = {table_rows(get) for get in (model.get_input_embeddings, model.get_output_embeddings)}
    return output.ndim == 3 and output.shape[:2] == x.shape[:2] and output.shape[-1] in rows


def table_rows(get: Callable[[], Any]) -> int | None:
    """How many rows an embedding has; None if there is none."""
    try:
        table = get()
    except NotImplementedError:  # a model of audio, say
        return None
    return len(table.weight) if isinstance(table, nn.Embedding | nn.Linear) else None
