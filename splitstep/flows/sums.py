"""A block's record as a chain of sums: what everything passes through, and what each state adds to the one before."""

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise, permutations
from typing import NamedTuple, final

import torch
from torch import Tensor

from .layout import Axes, Frame
from .record import Node, Record, Ref, is_float, storage

DEEPEST = 12  # additions and factors that one sum may nest
EXACT = 1e-6


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


class Term(NamedTuple):
    """factor * the value of a node, or a constant of the pass (factor * constant)."""

    factor: float
    node: int
    constant: Tensor | None = None


class Sum(NamedTuple):
    """x_end = skip * x_start + the sum of the terms; without a residual connection, skip is 0 and x_end the only term.
    The block's state has its axes in this order here."""

    start: int
    skip: float
    terms: tuple[Term, ...]
    constants: tuple[Term, ...] = ()
    axes: Axes = ()


def read(graph: Graph, frame: Frame) -> list[Sum]:
    """The parts of a block, each between two states. What only reshapes the state, or turns its axes, is none."""
    parts: list[Sum] = []
    done, axes = 0, tuple(range(len(frame.shape)))

    def pass_over(node: int) -> None:
        nonlocal axes
        turned = turned_axes(graph.value(done), graph.value(node), [frame.shape[i] for i in axes])
        if turned is None:
            parts.append(Sum(done, 0.0, (Term(1.0, node),), axes=axes))
        else:
            axes = tuple(axes[i] for i in turned)

    for a, b in pairwise(graph.chain()):
        found = residual(graph, a, b)
        if found is not None:
            pass_over(a)
            parts.append(found._replace(axes=axes))
            done = b
    pass_over(graph.end)
    return parts


def turned_axes(x: Tensor, y: Tensor, shape: Sequence[int]) -> Axes | None:
    """In which order y has the axes of x, a state of this shape; None if their numbers differ."""
    if x.numel() != y.numel():
        raise ValueError(f"its state changes size, from {list(x.shape)} to {list(y.shape)}")
    one, other = x.reshape(*shape), y.reshape(-1).to(x.dtype)
    orders = permutations(range(len(shape)))
    return next((axes for axes in orders if torch.equal(one.permute(axes).reshape(-1), other)), None)


def residual(graph: Graph, a: int, b: int) -> Sum | None:
    """The stretch from a to b as a sum that contains a itself; None if it is none."""
    if len([p for p in graph.sources[b] if p in graph.live]) < 2 and a not in graph.sources[b]:
        return None
    found = expand(graph, a, b)
    skip = sum(term.factor for term in found if term.node == a)
    terms = tuple(term for term in found if term.constant is None and term.node != a)
    sizes = {graph.value(term.node).numel() for term in terms}
    if not skip or sizes != {graph.value(a).numel()}:
        return None  # a hand-written norm subtracts the mean, which is smaller
    return Sum(a, whole(skip), terms, tuple(term for term in found if term.constant is not None))


def expand(graph: Graph, start: int, node: int, factor: float = 1.0, depth: int = 0) -> list[Term]:
    """A node as a signed sum, judged by its numbers: whatever equals k * p, p + q or p - q is taken apart."""
    if node == start or depth == DEEPEST:
        return [Term(factor, node)]
    given = float_arguments(graph, graph.nodes[node])
    if (found := multiple(graph, node, given)) is not None:
        k, source = found
        terms = expand(graph, start, source, factor * k, depth + 1)
        if k != 1.0 or len(terms) > 1 or terms[0].node == start:
            return terms
    elif (sign := signed_sum(graph.value(node), [one for one, _ in given])) is not None:
        terms = []
        for (one, ref), s in zip(given, (1.0, sign), strict=True):
            if ref is not None and graph.depends(ref):
                terms += expand(graph, start, ref.node, factor * s, depth + 1)
            else:
                terms.append(Term(factor * s, -1, one.expand_as(graph.value(node))))
        return terms
    return [Term(factor, node)]


def float_arguments(graph: Graph, node: Node) -> list[tuple[Tensor, Ref | None]]:
    """The tensors that an operation was given, as they were then."""
    found = [(one if ref is None else graph.nodes[ref.node].outputs[ref.output], ref) for one, ref in node.arguments]
    return [(one, ref) for one, ref in found if isinstance(one, Tensor) and one.is_floating_point() and one.numel()]


def multiple(graph: Graph, node: int, given: list[tuple[Tensor, Ref | None]]) -> tuple[float, int] | None:
    """(k, source) if the node is k times its only argument that depends on the input."""
    varying = [(one, ref) for one, ref in given if ref is not None and graph.depends(ref)]
    value = graph.value(node)
    if len(varying) != 1 or varying[0][0].numel() != value.numel():
        return None
    x, y = varying[0][0].reshape(-1).double(), value.reshape(-1).double()
    k = float(x @ y / (x @ x).clamp(min=1e-300))
    close = max(EXACT, torch.finfo(value.dtype).eps)
    if not k or distance(k * x, y) > close:
        return None
    assert varying[0][1] is not None
    return whole(k, close), varying[0][1].node


def signed_sum(value: Tensor, given: list[Tensor]) -> float | None:
    """The sign in value = p + q or p - q, computed in its own precision."""
    if len(given) != 2 or any(one.numel() > value.numel() for one in given):
        return None
    p, q = given
    for sign in (1.0, -1.0):
        try:
            found = (p + sign * q).to(value.dtype).expand_as(value)
        except RuntimeError:  # shapes that do not fit
            return None
        if distance(found, value) < EXACT:
            return sign
    return None


def whole(k: float, within: float = EXACT) -> float:
    """k, or one if it is that."""
    return 1.0 if abs(k - 1) < within else k


def distance(x: Tensor, y: Tensor) -> float:
    """|x - y| / |y|."""
    return float((x.double() - y.double()).norm() / y.double().norm().clamp(min=1e-300))
