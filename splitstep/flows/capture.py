"""The states of a pass at about the cost of the pass: the model itself runs, and a tape keeps what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from ..fields import exact_attention
from ..integrate import Event, integrate
from ..scheme import Part, Program
from .decompose import BlockCall, Mode, Reading, record_call
from .flow import Flow, Inputs, part_name, state_name
from .graph import Graph
from .naming import pieces
from .reading import read
from .recording import Kernels, storage
from .traced import TracedFlow, state_of

States = dict[tuple[str, int], Tensor]


class Captured(NamedTuple):
    """States by name and layer, such as states["resid_mid", 3], and what the model returned."""

    states: States
    output: Any


class Spot(NamedTuple):
    """Where a state is found: an output of a node of the record. Node 0 is the block's input."""

    node: int
    output: int
    copied: bool  # its memory is written into later


class Route(NamedTuple):
    """What a block ran, operation by operation, and where the state before each part of the scheme is among them."""

    functions: list[Any]
    spots: tuple[Spot, ...]


@final
@dataclass
class Tape:
    """Keeps the outputs of a few operations, counted as `Record` counts them, and the names of all."""

    wanted: dict[int, list[Spot]]
    functions: list[Any] = field(default_factory=list)
    kept: dict[Spot, Tensor] = field(default_factory=dict)

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any, target: Tensor | None) -> Any:
        result = function(*args, **kwargs)
        outputs = [result] if isinstance(result, Tensor) else tree_flatten(result)[0]
        if target is not None or any(isinstance(one, Tensor) for one in outputs):
            self.functions.append(function)
            for spot in self.wanted.get(len(self.functions), ()):
                if target is not None and not any(one is target for one in outputs):
                    outputs = [*outputs, target]
                self.keep(spot, outputs)
        return result

    def keep(self, spot: Spot, outputs: Sequence[Any]) -> None:
        """Another route may have other outputs; its functions will show it."""
        if spot.output < len(outputs) and isinstance(x := outputs[spot.output], Tensor):
            self.kept[spot] = x.clone() if spot.copied else x


@final
class Capture:
    """The states of one stack of a flow in a pass: `Capture(flow)(inputs).states["resid_mid", 3]`.

    The first pass of somebody else's model records it in full, to learn where the states are. Later ones cost about as
    much as the model alone, as long as a block runs the same operations; a block that does not, such as one that calls
    other experts, is recorded again. `layers` are those to keep; all by default.
    """

    def __init__(self, flow: Flow, stack: str | None = None, layers: Collection[int] | None = None) -> None:
        self.flow, self.stack = flow, flow.main if stack is None else stack
        if self.stack not in flow.stacks:
            raise ValueError(f"there is no stack {stack!r}: the model has {', '.join(flow.stacks)}")
        count = len(flow.stacks[self.stack].layers)
        self.layers = sorted(set(range(count) if layers is None else layers))
        if wrong := [layer for layer in self.layers if not 0 <= layer < count]:
            raise ValueError(f"there is no layer {wrong[0]}: {self.stack} has layers 0 to {count - 1}")
        self.routes: dict[int, Route] = {}

    def __call__(self, inputs: Inputs) -> Captured:
        if isinstance(self.flow, TracedFlow):
            return self.by_tape(self.flow, inputs)
        return self.by_events(self.flow, inputs)

    def by_events(self, flow: Flow, inputs: Inputs) -> Captured:
        """Our own models run by `integrate`, and its events have the states."""
        if self.stack != flow.main:
            raise ValueError(f"only {flow.main} of our own models is captured: use ss.observe(model, ...)")
        stack, before = flow.stacks[self.stack], States()

        def see(event: Event) -> None:
            if event.site.branch == 0:
                before[state_name(event, stack.scheme, "before", stack.substeps)[:2]] = event.before

        with torch.no_grad():
            end = integrate(stack.scheme, stack.steps(), flow.embed(inputs), flow.context(inputs), see)
            output = flow.head(end)
        x = (end[0] + end[1]) / 2 if stack.scheme.doubled else end
        return Captured(self.chosen(before, x), output)

    def by_tape(self, flow: TracedFlow, inputs: Inputs) -> Captured:
        """Somebody else's model runs as it is, with a tape in each block."""
        chain, before = flow.chains[self.stack], States()
        [(_, program)] = flow.stacks[self.stack].scheme.branches
        names = [part_name(number, len(program)) for number in range(len(program))]
        end: Any = None
        layers = iter(range(len(chain.modules)))
        wanted = {*self.layers, *(layer + 1 for layer in self.layers)}  # the state after a layer is before the next

        def see(stack: str, call: BlockCall) -> Any:
            nonlocal end
            layer = next(layers)
            if layer not in wanted:
                end = call.forward(*call.args, **call.kwargs)
                return end
            states, end = self.block(layer, call, chain.readings[layer], program)
            before.update({(name, layer): x for name, x in zip(names, states, strict=True)})
            return end

        output = flow.watch(flow.given(inputs), {self.stack: chain}, see)
        return Captured(self.chosen(before, state_of(end).clone()), output)

    def chosen(self, before: States, end: Tensor) -> States:
        """The states of the layers to keep, each with the one after it: what the next layer is given."""
        found = States()
        for layer in self.layers:
            found |= {key: x for key, x in before.items() if key[1] == layer}
            found["resid_post", layer] = before.get(("resid_pre", layer + 1), end)
        return found

    def block(self, layer: int, call: BlockCall, reading: Reading, program: Program) -> tuple[list[Tensor], Any]:
        """The state before each part of one block, and what it returned."""
        if reading.mode is None:
            return [call.x] * len(program), call.forward(*call.args, **call.kwargs)
        route = self.routes.get(layer)
        if route is None:
            return self.learn(layer, call, reading, program)
        tape = Tape({spot.node: [one for one in route.spots if one.node == spot.node] for spot in route.spots})
        x = call.x.clone() if any(one.copied for one in route.spots if not one.node) else call.x
        returned = taped(call, reading.mode, tape)
        if tape.functions != route.functions:
            return self.learn(layer, call._replace(x=x), reading, program)
        return [tape.kept[spot].reshape(x.shape) if spot.node else x for spot in route.spots], returned

    def learn(self, layer: int, call: BlockCall, reading: Reading, program: Program) -> tuple[list[Tensor], Any]:
        """Record the block in full, and note where its states are."""
        assert reading.mode is not None
        graph, returned = record_call(call, reading.mode)
        parts = read(graph)
        own = [piece.part for piece in pieces(graph, parts, reading.letters, call.x.shape)]
        nodes = aligned(own, [part.start for part in parts], graph.end, program)
        self.routes[layer] = Route([node.function for node in graph.nodes[1:]], tuple(spot_of(graph, i) for i in nodes))
        return [graph.value(i).reshape(call.x.shape) for i in nodes], returned


def taped(call: BlockCall, mode: Mode, tape: Tape) -> Any:
    with exact_attention() if mode is Kernels else nullcontext(), mode(tape):
        return call.forward(*call.args, **call.kwargs)


def spot_of(graph: Graph, node: int) -> Spot:
    return Spot(node, graph.output(node), storage(graph.value(node)) in graph.written)


def aligned(own: Sequence[Part], starts: Sequence[int], end: int, program: Program) -> list[int]:
    """The node before each part of the stack's scheme; a layer that lacks a part stays where it is."""
    found: list[int] = []
    number = 0
    for part in program:
        found.append(starts[number] if number < len(own) else end)
        number += number < len(own) and own[number] == part
    return found
