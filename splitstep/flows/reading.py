"""Read a block's graph as a chain of parts: sums that add to the state, and maps that replace it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from .graph import Graph
from .recording import Node, Ref

DEEPEST = 12  # additions and factors that one sum may nest
EXACT = 1e-6


class Term(NamedTuple):
    """factor * the value of a node, or a constant of the pass (factor * constant)."""

    factor: float
    node: int
    constant: Tensor | None = None


class Residual(NamedTuple):
    """x_end = skip * x_start + the sum of the terms."""

    start: int
    end: int
    skip: float
    terms: tuple[Term, ...]
    constants: tuple[Term, ...]


class Map(NamedTuple):
    """x_end is a function of x_start without a residual connection."""

    start: int
    end: int


def read(graph: Graph) -> list[Residual | Map]:
    """The parts of a block, each between two states."""
    parts: list[Residual | Map] = []
    done = 0
    for a, b in pairwise(graph.chain()):
        found = residual(graph, a, b)
        if found is not None:
            parts += [*mapped(graph, done, a), found]
            done = b
    return [*parts, *mapped(graph, done, graph.end)]


def mapped(graph: Graph, start: int, end: int) -> list[Map]:
    """What lies between two residual parts; nothing if it only reshapes."""
    a, b = graph.value(start), graph.value(end)
    if a.numel() != b.numel():
        raise ValueError(f"its state changes size, from {list(a.shape)} to {list(b.shape)}")
    return [] if start == end or torch.equal(a.reshape(-1), b.reshape(-1).to(a.dtype)) else [Map(start, end)]


def residual(graph: Graph, a: int, b: int) -> Residual | None:
    """The stretch from a to b as a sum that contains a itself; None if it is none."""
    if len([p for p in graph.sources[b] if p in graph.live]) < 2 and a not in graph.sources[b]:
        return None
    found = expand(graph, a, b)
    skip = sum(term.factor for term in found if term.node == a)
    terms = tuple(term for term in found if term.constant is None and term.node != a)
    sizes = {graph.value(term.node).numel() for term in terms}
    if not skip or sizes != {graph.value(a).numel()}:
        return None  # a hand-written norm subtracts the mean, which is smaller
    return Residual(a, b, whole(skip), terms, tuple(term for term in found if term.constant is not None))


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
    if not k or distance(k * x, y) > closeness(value):
        return None
    assert varying[0][1] is not None
    return whole(k, closeness(value)), varying[0][1].node


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


def closeness(x: Tensor) -> float:
    """How close two numbers of this type must be to count as equal."""
    return max(EXACT, torch.finfo(x.dtype).eps if torch.finfo(x.dtype).bits < 32 else EXACT)


def whole(k: float, within: float = EXACT) -> float:
    """k, or one if it is that."""
    return 1.0 if abs(k - 1) < within else k


def distance(x: Tensor, y: Tensor) -> float:
    """|x - y| / |y|."""
    return float((x.double() - y.double()).norm() / y.double().norm().clamp(min=1e-300))
