"""Find the repeated blocks of a model by running it: each is fed with what the one before returned."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_map

Forward = Callable[..., Any]


class Call(NamedTuple):
    """One call of a module: the floats that it was given, the first that it returned, and who called it."""

    module: nn.Module
    given: tuple[Tensor, ...]
    output: Tensor | None
    callers: tuple[nn.Module, ...]
    order: int

    @property
    def is_candidate(self) -> bool:
        """Whether it maps a state to one of the same shape, with weights."""
        x = self.output
        return x is not None and x.dim() >= 2 and bool(self.states) and self.has_weights

    @property
    def has_weights(self) -> bool:
        return any(True for _ in self.module.parameters())

    @property
    def states(self) -> list[Tensor]:
        return [one for one in self.given if self.output is not None and one.shape == self.output.shape]

    def follows(self, other: "Call") -> bool:
        """Whether it was given what the other one returned."""
        x = other.output
        return x is not None and any(
            one is x or (one.shape == x.shape and bool(torch.equal(one, x))) for one in self.states
        )


def floats(tree: Any) -> tuple[Tensor, ...]:
    """The tensors of real numbers in nested arguments or results."""
    return tuple(one for one in tree_flatten(tree)[0] if isinstance(one, Tensor) and one.is_floating_point())


def first_float(result: Any) -> Tensor | None:
    """The state that a block returns, or a model's logits."""
    return next(iter(floats(result)), None)


def exchanged(tree: Any, old: Tensor, new: Tensor) -> Any:
    """The same arguments or results with one tensor exchanged."""
    return tree_map(lambda one: new if one is old else one, tree)


def calls_of(model: nn.Module, run: Callable[[], Any]) -> list[Call]:
    """Every call of a module in one pass, in the order in which they end, also of those that call `forward` itself."""
    calls: list[Call] = []
    running: list[nn.Module] = []

    def see(module: nn.Module, forward: Forward, args: Any, kwargs: Any) -> Any:
        running.append(module)
        result = forward(*args, **kwargs)
        running.pop()
        calls.append(Call(module, floats((args, kwargs)), first_float(result), tuple(running), len(calls)))
        return result

    with torch.no_grad(), intercepted(list(model.modules()), see):
        run()
    return calls


Chains = dict[str, list[Call]]


def find_chains(model: nn.Module, run: Callable[[], Any]) -> Chains:
    """The outermost chains of at least two calls, by the name of the first module's list, in the order of running."""
    names = {module: name for name, module in model.named_modules()}
    groups: dict[Any, list[Call]] = {}
    for call in calls_of(model, run):
        groups.setdefault(group_of(model, names, call), []).append(call)
    chains = [chain for group, calls in groups.items() for chain in linked(calls, group[0] == "list")]
    members = {call.module for chain in chains for call in chain}
    outer = [chain for chain in chains if not members & {one for call in chain for one in call.callers}]
    found: Chains = {}
    for chain in sorted(outer, key=lambda chain: chain[-1].order):
        name = list_name(names[chain[0].module])
        found[name if name not in found else f"{name}_{len(found)}"] = chain
    return found


def following(chains: Chains) -> Chains:
    """The chains in which some block follows another; all, if there is none, so that one hears of them."""
    return {name: chain for name, chain in chains.items() if any(followed(chain))} or chains


def followed(calls: Sequence[Call]) -> list[bool]:
    """Whether each call but the first was given what the one before returned."""
    return [after.follows(before) for before, after in pairwise(calls)]


def check_chains(name: str, chains: Mapping[str, Sequence[Call]]) -> None:
    """Refuse a model in which something else changes the state between two blocks."""
    for stack, calls in chains.items():
        if not all(followed(calls)):
            raise ValueError(f"{name}: the blocks {stack} do not follow one another, so they are not one flow")


def list_name(name: str) -> str:
    """The name of the list that a block is in: without its number."""
    parts = name.split(".")
    while len(parts) > 1 and parts[-1].isdigit():
        parts.pop()
    return ".".join(parts) or "blocks"


def group_of(model: nn.Module, names: Mapping[nn.Module, str], call: Call) -> tuple[Any, ...]:
    """Blocks stand in one list, or they are of one class and equally deep in the model."""
    parent = names[call.module].rpartition(".")[0]
    home = model.get_submodule(parent)
    if isinstance(home, nn.ModuleList) and len(home) > 1:
        return ("list", parent)
    if isinstance(home, nn.Sequential) and len(home) > 1:
        return ("sequence", parent)
    return ("class", type(call.module), len(call.callers))


def linked(calls: Sequence[Call], listed: bool) -> list[list[Call]]:
    """The calls cut into chains of at least two, in which each call follows the one before."""
    chains: list[list[Call]] = [[]]
    for call in calls:
        before = chains[-1][-1:]
        if call.is_candidate:
            follows = all((listed and beside(one, call)) or call.follows(one) for one in before)
            if not follows:
                chains.append([])
            chains[-1].append(call)
        elif call.has_weights:
            chains.append([])
    return [chain for chain in chains if len(chain) > 1]


def beside(one: Call, other: Call) -> bool:
    """Whether two calls of one list's modules have the same caller and a state of the same shape."""
    assert one.output is not None
    assert other.output is not None
    return one.output.shape == other.output.shape and one.callers == other.callers


@contextmanager
def intercepted(modules: Sequence[nn.Module], wrapper: Callable[[nn.Module, Forward, Any, Any], Any]) -> Iterator[None]:
    """Calls of these modules go to wrapper(module, forward, args, kwargs) instead."""
    distinct = dict.fromkeys(modules)
    own = {one: vars(one)["forward"] for one in distinct if "forward" in vars(one)}

    def divert(module: nn.Module, forward: Forward) -> None:
        diverted = wraps(forward)(lambda *args, **kwargs: wrapper(module, forward, args, kwargs))
        object.__setattr__(module, "forward", diverted)

    for module in distinct:
        divert(module, module.forward)
    try:
        yield
    finally:
        for module in distinct:
            object.__delattr__(module, "forward")
        for module, forward in own.items():
            object.__setattr__(module, "forward", forward)
