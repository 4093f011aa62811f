"""Watch the operations inside a call: a mode hands them to a recorder, which keeps all or some."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

WRITES = frozenset(f"__{name}__" for name in ("iadd", "isub", "imul", "itruediv", "setitem"))
VIEWS = (Tensor.T, Tensor.mT, Tensor.H, Tensor.mH, Tensor.real, Tensor.imag, Tensor.data)
"""Properties that are operations; the others, such as a shape, are not recorded."""


class Ref(NamedTuple):
    """The output of a node."""

    node: int
    output: int


@dataclass(slots=True)
class Node:
    """One operation: its arguments as a flat list, each with the node it came from, and its outputs.

    `needs` are the nodes whose results it reads. `target` is the tensor that it writes into, if there is one.
    """

    index: int
    function: Callable[..., Any]
    arguments: list[tuple[Any, Ref | None]]
    spec: Any
    outputs: list[Tensor | None]
    needs: set[int]
    target: Tensor | None = None

    @property
    def name(self) -> str:
        """The name of the operation, without its overload."""
        return getattr(self.function, "__name__", str(self.function)).split(".")[0]

    @property
    def floats(self) -> bool:
        return any(one is not None and is_float(one) for one in self.outputs)


def is_float(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def storage(x: Tensor) -> int | None:
    """The memory that a tensor shares with its views."""
    return x.untyped_storage()._cdata if x.layout == torch.strided else None


class Recorder(Protocol):
    """Whatever runs the operations of a call and takes note. `target` is what an operation writes into."""

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any, target: Tensor | None) -> Any: ...


@final
class Record:
    """The operations since `x` was given, in order; node 0 is x itself.

    A write keeps the value before it in the earlier node, and every later read of that memory needs the write.
    """

    def __init__(self, x: Tensor) -> None:
        self.nodes = [Node(0, lambda: x, [], None, [x], set())]
        self.origin: dict[int, Ref] = {id(x): Ref(0, 0)}
        self.writer: dict[int, int] = {}  # the last node that wrote into a storage
        self.alive: list[Any] = [x]  # so that no id is used twice

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any, target: Tensor | None) -> Any:
        """Call the function and note it."""
        flat, spec = tree_flatten((args, kwargs))
        before = None if target is None else target.detach().clone()
        result = function(*args, **kwargs)
        outputs = [one if isinstance(one, Tensor) else None for one in tree_flatten(result)[0]]
        self.alive += [flat, outputs]
        if target is not None or any(one is not None for one in outputs):
            arguments = [(one, self.origin.get(id(one)) if isinstance(one, Tensor) else None) for one in flat]
            node = Node(len(self.nodes), function, arguments, spec, outputs, self.needed(arguments), target)
            if target is not None and before is not None:
                self.write(node, target, before)
            self.nodes.append(node)
            self.origin |= {id(one): Ref(node.index, k) for k, one in enumerate(node.outputs) if one is not None}
        return result

    def needed(self, arguments: Sequence[tuple[Any, Ref | None]]) -> set[int]:
        own = {ref.node for _, ref in arguments if ref is not None}
        memory = {storage(one) for one, _ in arguments if isinstance(one, Tensor)}
        return own | {self.writer[one] for one in memory if one in self.writer}

    def write(self, node: Node, target: Tensor, before: Tensor) -> None:
        """Keep what stood in the target before, and make the node its writer."""
        ref = self.origin.get(id(target))
        if ref is None:
            node.arguments = [(before if one is target else one, ref) for one, ref in node.arguments]
        else:
            self.nodes[ref.node].outputs[ref.output] = before
        if not any(one is target for one in node.outputs):
            node.outputs.append(target)
        if (memory := storage(target)) is not None:
            self.writer[memory] = node.index


class Spot(NamedTuple):
    """Where a value is found in a record: an output of a node."""

    node: int
    output: int
    copied: bool  # its memory is written into later


@final
class Tape:
    """Keeps the outputs of a few operations, counted as `Record` counts them, and the names of all."""

    def __init__(self, spots: Iterable[Spot]) -> None:
        self.wanted: dict[int, list[Spot]] = {}
        for spot in spots:
            self.wanted.setdefault(spot.node, []).append(spot)
        self.functions: list[Any] = []
        self.kept: dict[Spot, Tensor] = {}

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
class Functions(TorchFunctionMode):
    """Records calls of torch's functions and methods."""

    def __init__(self, record: Recorder) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        given = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__") and not any(func.__self__ is view for view in VIEWS):
            return func(*args, **given)
        in_place = name in WRITES or (name.endswith("_") and not name.endswith("__"))
        return self.record.run(func, args, given, given.get("out", args[0] if in_place and args else None))
