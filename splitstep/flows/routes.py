"""What the fields of a block add, at about the cost of the block: it runs as it is, and a tape keeps their values."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

from torch import Tensor

from .decompose import BlockCall, Reading, named, record_call
from .layout import Frame
from .parts import WHOLE, Terms
from .record import Functions, Spot, Tape, storage


class Route(NamedTuple):
    """What a block ran, operation by operation, and where the values of its fields are among them."""

    functions: list[Any]
    sums: Mapping[str, Terms]
    spots: Mapping[int, Spot]  # by node


class Increments(NamedTuple):
    """One block in a pass: the state that it was given, its fields there, by name, and what it returned."""

    x: Tensor
    fields: Mapping[str, Tensor]
    returned: Any


@final
class Routes:
    """How the blocks of a model run. A block is recorded in full at first, to learn where the values of its fields are;
    later a tape is enough, as long as it runs the same operations. One that does not, such as a block that calls other
    experts, is recorded again."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], Route] = {}

    def read(self, place: tuple[str, int], call: BlockCall, reading: Reading) -> Increments:
        """Run a block, which is at this place: its stack and its layer."""
        if reading.letters is None:
            x = call.x.clone()
            returned = call.on(call.own)
            return Increments(x, {WHOLE: call.state(returned) - x}, returned)
        route = self.known.get(place)
        if route is None:
            return self.learn(place, call, reading)
        x = call.own.clone() if any(one.copied for one in route.spots.values() if not one.node) else call.own
        tape = Tape(route.spots.values())
        with Functions(tape):
            returned = call.on(call.own)
        if tape.functions != route.functions:
            return self.learn(place, call.moved(x), reading)
        kept = {node: tape.kept[spot] if node else x for node, spot in route.spots.items()}
        return Increments(call.frame.seen(x), values_of(route.sums, kept, call.frame), returned)

    def learn(self, place: tuple[str, int], call: BlockCall, reading: Reading) -> Increments:
        """Record a block in full. What it adds beside its operations' results may differ in another pass: then it is
        recorded each time."""
        graph, returned = record_call(call)
        sums = {name: one for piece in named(graph, call, reading.letters)[1] for name, one in piece.sums.items()}
        nodes = {term.node for one in sums.values() for term in one.terms}
        self.known.pop(place, None)
        if all(one.added is None for one in sums.values()):
            spots = {
                node: Spot(node, graph.output(node), storage(graph.value(node)) in graph.written)
                for node in sorted({0, *nodes})
            }
            self.known[place] = Route([node.function for node in graph.nodes[1:]], sums, spots)
        return Increments(call.x, values_of(sums, {node: graph.value(node) for node in nodes}, call.frame), returned)


def values_of(sums: Mapping[str, Terms], kept: Mapping[int, Tensor], frame: Frame) -> dict[str, Tensor]:
    return {name: one.of([kept[term.node] for term in one.terms], frame) for name, one in sums.items()}
