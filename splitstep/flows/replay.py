"""Run recorded operations again at another state, with everything else as it was in the pass."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from .record import Node, Ref, is_float, storage
from .sums import Graph

OUT_OF_PLACE: dict[str, Callable[..., Tensor]] = {
    "__iadd__": torch.add,
    "__isub__": torch.sub,
    "__imul__": torch.mul,
    "__itruediv__": torch.div,
}
REPLACES = ("copy_", "zero_", "fill_", "__setitem__")  # they have no namesake that does the same out of place


def grouped_product(x: Tensor, w: Tensor, offs: Tensor | None = None, **more: Any) -> Tensor:
    """torch._grouped_mm of rows x [n, k], sorted by expert, and weights w [experts, k, m], one expert after the other:
    the operation itself has no forward derivatives and no batching rule. `offs` says where each expert's rows end."""
    if offs is None or (x.dim(), w.dim()) != (2, 3) or more.get("bias") is not None or len(x) != int(offs[-1]):
        return torch._grouped_mm(x, w, offs=offs, **more)  # pyright: ignore[reportPrivateImportUsage]
    ends = offs.tolist()
    products = [x[a:b] @ w[i] for i, (a, b) in enumerate(pairwise([0, *ends])) if b > a]
    return torch.cat(products).to(more.get("out_dtype") or x.dtype)


WRITTEN_OUT: dict[str, Callable[..., Tensor]] = {"_grouped_mm": grouped_product, "grouped_mm": grouped_product}
"""Operations that are replaced by others, which have derivatives of every kind."""


class Instruction(NamedTuple):
    """One operation to run again. How: as it was; a write made out of place; a write into memory that has views.
    Arguments that are computed anew are the references to their values."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    spec: Any
    outputs: tuple[Ref | None, ...]
    how: Literal["plain", "copy", "write"]
    fresh: bool  # makes memory that is written into later: it must vary as the state does (vmap)

    def run(self, values: dict[Ref, Tensor], x: Tensor) -> None:
        given = [values[one] if isinstance(one, Ref) else one for one in self.arguments]
        args, kwargs = tree_unflatten(given, self.spec)
        results = self.results(args, kwargs)
        if self.fresh:
            results = [one + x.new_zeros((), dtype=one.dtype) if isinstance(one, Tensor) else one for one in results]
        for ref, one in zip(self.outputs, results, strict=True):
            if ref is not None:
                values[ref] = one

    def results(self, args: Any, kwargs: Any) -> list[Any]:
        if self.how == "copy":
            return [out_of_place(self.function, args, kwargs)] * len(self.outputs)
        if self.how == "write" and not isinstance(self.arguments[0], Ref):
            args = (args[0].clone(), *args[1:])
        found = tree_flatten(self.function(*args, **kwargs))[0]
        whole = len(found) == len(self.outputs) and all(isinstance(one, Tensor) for one in found)
        return found if self.how == "plain" or whole else [args[0]] * len(self.outputs)


def out_of_place(function: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    """What an operation writes, without touching its target."""
    name = getattr(function, "__name__", "")
    if name in OUT_OF_PLACE:
        return OUT_OF_PLACE[name](*args, **kwargs)
    plain = getattr(Tensor, name[:-1], None) if name.endswith("_") and name not in REPLACES else None
    if plain is not None:
        return plain(*args, **kwargs)
    copy = args[0].clone()
    function(copy, *args[1:], **kwargs)
    return copy


@final
@dataclass(frozen=True)
class Replay:
    """The value of one node as a function of the value of an earlier one. It holds the constants that it needs."""

    start: Ref
    shape: torch.Size
    instructions: tuple[Instruction, ...]
    result: Ref
    copies: bool  # the state lies in memory that the operations write into

    def __call__(self, x: Tensor) -> Tensor:
        u = x.reshape(self.shape)
        values = {self.start: u.clone() if self.copies else u}
        for one in self.instructions:
            one.run(values, x)
        return values[self.result]


def replay(graph: Graph, start: int, end: int) -> Replay:
    """The operations from one node to another."""
    first, value = Ref(start, graph.output(start)), graph.value(start)
    order = needed_again(graph, start, end)
    known = {Ref(start, k): first for k, one in enumerate(graph.nodes[start].outputs) if one is value}
    instructions: list[Instruction] = []
    for i in order:
        node = graph.nodes[i]
        outputs = tuple(
            Ref(i, k) if one is not None and (is_float(one) or graph.shares_written(i)) else None
            for k, one in enumerate(node.outputs)
        )
        fresh = i not in graph.sources and node.target is None and not node.needs & set(order) and node.floats
        arguments = tuple(argument(graph, one, ref, known) for one, ref in node.arguments)
        function = WRITTEN_OUT.get(node.name, node.function)
        instructions.append(Instruction(function, arguments, node.spec, outputs, how(graph, node), fresh))
        known |= {ref: ref for ref in outputs if ref is not None}
    copies = storage(value) in graph.written and any(one.how == "write" for one in instructions)
    return Replay(first, value.shape, tuple(instructions), known[Ref(end, graph.output(end))], copies)


def argument(graph: Graph, given: Any, ref: Ref | None, known: dict[Ref, Ref]) -> Any:
    if ref is None:
        return given
    return known[ref] if ref in known else graph.nodes[ref.node].outputs[ref.output]


def how(graph: Graph, node: Node) -> Literal["plain", "copy", "write"]:
    """A write runs out of place if nothing else in the record lies in the same memory."""
    if node.target is None:
        return "plain"
    memory = storage(node.target)
    outputs = (one for other in graph.nodes for one in other.outputs if one is not None and one is not node.target)
    return "write" if any(storage(one) == memory for one in outputs) else "copy"


def needed_again(graph: Graph, start: int, end: int) -> list[int]:
    """The operations to run for one node's value as a function of another's: those in between that depend on it, and
    those that make or write memory which is written into."""
    wanted: set[int] = set()
    waiting = [end]
    while waiting:
        i = waiting.pop()
        if i in wanted or i == start:
            continue
        wanted.add(i)
        waiting += [p for p in graph.sources.get(i, ()) if p >= start]
        waiting += [p for p in graph.nodes[i].needs if p > 0 and p not in graph.sources and graph.shares_written(p)]
    return depending(graph, start, wanted)


def depending(graph: Graph, start: int, wanted: set[int]) -> list[int]:
    found, varying = list[int](), {start}
    for i in sorted(wanted):
        if any(p in varying for p in graph.sources.get(i, ())):
            varying.add(i)
            found.append(i)
        elif i not in graph.sources or graph.shares_written(i):
            found.append(i)
    return found
