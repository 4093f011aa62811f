"""The graph of a record: what depends on the block's input, and through which results everything must pass."""

from __future__ import annotations

from functools import reduce
from typing import final

from torch import Tensor

from .recording import Node, Record, Ref, is_float, storage


@final
class Graph:
    """The operations between a block's input, node 0, and its output, `end`.

    Integer and boolean results are constants: routing and masks stay as they were in the pass.
    """

    def __init__(self, record: Record, output: Tensor) -> None:
        self.nodes, self.written = record.nodes, set(record.writer)
        ref = record.origin.get(id(output))
        if ref is None:
            raise ValueError("its output was not recorded")
        writer = record.writer.get(storage(output) or 0, 0)
        self.end = max(ref.node, writer)
        self.sources = reached(self.nodes)
        if self.end not in self.sources or self.end == 0:
            raise ValueError("its output does not depend on its input")
        self.live = ancestors(self.sources, self.end)
        self.dominator = dominators({i: [p for p in self.sources[i] if p in self.live] for i in sorted(self.live)})
        self.used = used_outputs(self.nodes, self.live)
        if ref.node == self.end:
            self.used[self.end] = {ref.output}

    def value(self, node: int) -> Tensor:
        """What a node computed: the float output that others use."""
        output = self.nodes[node].outputs[self.output(node)]
        assert output is not None
        return output

    def output(self, node: int) -> int:
        """Which output that is."""
        floats = [k for k, one in enumerate(self.nodes[node].outputs) if one is not None and is_float(one)]
        return next((k for k in floats if k in self.used.get(node, ())), floats[0])

    def chain(self) -> list[int]:
        """The results through which everything passes, from the input to the output."""
        found = [self.end]
        while found[-1] != 0:
            found.append(self.dominator[found[-1]])
        return [i for i in reversed(found) if i in (0, self.end) or self.single(i)]

    def single(self, node: int) -> bool:
        """Whether only one of its outputs is used: a part of several is not a state."""
        outputs = [self.nodes[node].outputs[k] for k in self.used.get(node, ())]
        return len({id(one) for one in outputs if one is not None and is_float(one)}) < 2

    def depends(self, ref: Ref | None) -> bool:
        """Whether a result depends on the block's input."""
        return ref is not None and ref.node in self.sources

    def shares_written(self, node: int) -> bool:
        """Whether some of its outputs lie in memory that is written into."""
        return any(one is not None and storage(one) in self.written for one in self.nodes[node].outputs)


def reached(nodes: list[Node]) -> dict[int, list[int]]:
    """For each node that depends on node 0 by floats, the nodes through which it does."""
    found: dict[int, list[int]] = {0: []}
    for node in nodes[1:]:
        if node.floats and (sources := sorted(node.needs & found.keys())):
            found[node.index] = sources
    return found


def ancestors(sources: dict[int, list[int]], end: int) -> set[int]:
    found = {end}
    for i in range(end, -1, -1):
        if i in found:
            found.update(sources.get(i, ()))
    return found


def dominators(sources: dict[int, list[int]]) -> dict[int, int]:
    """The last node through which every path from node 0 to a node leads; nodes come in the order of execution."""
    found = {0: 0}

    def meet(a: int, b: int) -> int:
        while a != b:
            a, b = (found[a], b) if a > b else (a, found[b])
        return a

    for node, before in sources.items():
        if node:
            found[node] = reduce(meet, before)
    return found


def used_outputs(nodes: list[Node], live: set[int]) -> dict[int, set[int]]:
    """Which outputs of each node others read."""
    found: dict[int, set[int]] = {}
    for i in live:
        for _, ref in nodes[i].arguments:
            if ref is not None:
                found.setdefault(ref.node, set()).add(ref.output)
    return found
