"""The flow of somebody else's model: its blocks are found, recorded and checked, without knowing their names."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor, nn

from ..scheme import Scheme, Substep
from ..stack import Stack
from ..support.words import first_line
from .blocks import Call, Forward, check_chains, exchanged, find_chains, floats, intercepted
from .decompose import BlockCall, Reading, Seen, common_program, read_again, scheme_of, state_of, take_apart, tolerance
from .examples import as_inputs, check_length
from .flow import Flow, Inputs, Remembered, Stopped
from .naming import WHOLE, Piece
from .passes import Bound, Pass, bound, without_weights
from .reading import distance

FALLBACK = "is read by whole layers: attention and feed-forward could not be told apart"


class Chain(NamedTuple):
    """A stack's blocks in the order of their calls, where among their arguments the state is, and how they are read."""

    modules: tuple[nn.Module, ...]
    position: int  # among the arguments with as many axes and the same width
    axes: int
    width: int
    readings: tuple[Reading, ...] = ()

    def state(self, args: Any, kwargs: Any) -> Tensor:
        alike = [one for one in floats((args, kwargs)) if one.dim() == self.axes and one.shape[-1] == self.width]
        return alike[self.position]


def chain_of(calls: Sequence[Call]) -> Chain:
    first = calls[0]
    x = first.states[0]
    alike = [one for one in first.given if one.dim() == x.dim() and one.shape[-1] == x.shape[-1]]
    position = next(i for i, one in enumerate(alike) if one is x)
    return Chain(tuple(call.module for call in calls), position, x.dim(), x.shape[-1])


@final
class TracedFlow(Flow):
    """A model of any kind, found by running it on example inputs."""

    def __init__(self, model: nn.Module, example: Inputs, name: str) -> None:
        self.model, self.name, self.last = model, name, Remembered()
        given = as_inputs(model, example)
        calls = find_chains(model, partial(self.run, given))
        check_chains(name, calls)
        chains = {stack: chain_of(own) for stack, own in calls.items()}
        seen: dict[str, list[Seen]] = {stack: [] for stack in chains}
        self.watch(given, chains, lambda stack, call: kept(seen[stack], take_apart(call)))
        seen = with_residuals(seen)
        if not seen:
            raise ValueError(
                f"{name} is not a Transformer: it has no repeated blocks with a residual connection around them"
            )
        stacks, notes = dict[str, Stack](), list[str]()
        self.chains = dict[str, Chain]()
        for stack, layers in seen.items():
            readings, scheme, note = agreed(stack, layers)
            self.chains[stack] = chains[stack]._replace(readings=readings)
            stacks[stack] = Stack(scheme, len(layers), partial(lambda stack, name, i: Bound(stack, i, name), stack))
            notes += [note] if note else []
        super().__init__(model, stacks, notes)
        self.notes += tuple(without_weights(self.check_head(given)))
        for note in notes:
            warnings.warn(f"{name}: {note}", stacklevel=3)

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """A pass of the model in evaluation mode, without a cache of keys and values."""
        named = {"use_cache": False} if "use_cache" in inspect.signature(self.model.forward).parameters else {}
        with uncached(self.model):
            return self.model(**{**named, **inputs})

    def watch(
        self, inputs: Mapping[str, Any], chains: Mapping[str, Chain], see: Callable[[str, BlockCall], Any]
    ) -> Any:
        """A pass in which see(stack, call) answers for every block."""
        homes = {id(module): stack for stack, chain in chains.items() for module in chain.modules}

        def wrapper(module: nn.Module, forward: Forward, args: Any, kwargs: Any) -> Any:
            stack = homes[id(module)]
            return see(stack, BlockCall(forward, args, kwargs, chains[stack].state(args, kwargs)))

        modules = [module for chain in chains.values() for module in chain.modules]
        try:
            with torch.no_grad(), intercepted(modules, wrapper):
                return self.run(inputs)
        except IndexError as error:  # a table of tokens or positions is too short
            raise ValueError(f"{self.name} does not take these inputs: {first_line(error)}") from None

    def embed(self, inputs: Inputs) -> Tensor:
        found: list[Tensor] = []

        def stop(stack: str, call: BlockCall) -> NoReturn:
            found.append(call.x)
            raise Stopped

        try:
            given = self.given(inputs)
            self.watch(given, {self.main: self.chains[self.main]}, stop)
        except Stopped:
            pass
        return found[0].clone()

    def context(self, inputs: Inputs) -> Pass:
        given = self.given(inputs)
        seen: dict[str, list[Seen]] = {stack: [] for stack in self.stacks}
        output = self.watch(given, self.chains, lambda stack, call: self.again(seen[stack], stack, call))
        self.last.context = bound(given, seen, output, self.blocks_only)
        return self.last.context

    def again(self, layers: list[Seen], stack: str, call: BlockCall) -> Any:
        """Read the next block of a stack as it was read before."""
        return kept(layers, read_again(call, self.chains[stack].readings[len(layers)]))

    def blocks_only(self, inputs: Mapping[str, Any], states: Sequence[Tensor] | None) -> Pass:
        """A pass that ends with the last block. If states are given, the blocks of the main stack are read there."""
        seen: dict[str, list[Seen]] = {stack: [] for stack in self.stacks}

        def see(stack: str, call: BlockCall) -> Any:
            layers = seen[stack]
            here = call if states is None or stack != self.main else call.moved(states[len(layers)])
            returned = self.again(layers, stack, here)
            if stack == self.main and len(layers) == len(self.chains[stack].readings):
                raise Stopped
            return returned

        with suppress(Stopped):
            self.watch(inputs, self.chains, see)
        return bound(inputs, seen, None, self.blocks_only)

    def given(self, inputs: Inputs) -> Mapping[str, Any]:
        check_length(self.model, self.name, given := as_inputs(self.model, inputs))
        return given

    def head(self, x: Tensor, context: Pass | None = None) -> Tensor:
        of = self.last.use(context)
        returned = iter(of.returned[self.main])
        count = len(of.returned[self.main])

        def wrapper(module: nn.Module, forward: Forward, args: Any, kwargs: Any) -> Any:
            nonlocal count
            count -= 1
            result = next(returned)
            return result if count else exchanged(result, state_of(result), x)

        if x.shape != (shape := state_of(of.returned[self.main][-1]).shape):
            raise ValueError(f"head was given a state of shape {list(x.shape)}; its pass has {list(shape)}")
        with intercepted(self.chains[self.main].modules, wrapper):
            return state_of(self.run(of.inputs))

    def check_head(self, inputs: Mapping[str, Any]) -> Pass:
        """A pass of these inputs, in which the last stack must lead to the model's output."""
        of = self.context(inputs)
        end = state_of(of.returned[self.main][-1])
        with torch.no_grad():
            error = distance(self.head(end, of), state_of(of.output))
        if error > tolerance(end):
            raise ValueError(f"{self.name}: what follows the blocks {self.main} does not give its output again")
        return of


@contextmanager
def uncached(model: Any) -> Iterator[None]:
    """Configs say that there is no cache of keys and values: blocks that write into one cannot be run again."""
    configs = {id(one): one for one in (model.config, model.config.get_text_config())}.values()
    before = [(one, vars(one)["use_cache"]) for one in configs if "use_cache" in vars(one)]
    for config, _ in before:
        config.use_cache = False
    try:
        yield
    finally:
        for config, value in before:
            config.use_cache = value


def kept(layers: list[Seen], one: Seen) -> Any:
    layers.append(one)
    return one.returned


def with_residuals(seen: Mapping[str, list[Seen]]) -> dict[str, list[Seen]]:
    """The stacks whose blocks add to their state; if there are none, those that mix tokens, by whole layers."""
    if found := {stack: layers for stack, layers in seen.items() if any(one.adds for one in layers)}:
        return found
    return {
        stack: [unadded(one) for one in layers] for stack, layers in seen.items() if any(one.mixes for one in layers)
    }


def unadded(one: Seen) -> Seen:
    why = "no part of a block adds to its state"
    return one._replace(pieces=[Piece(Substep((WHOLE,)), {})], reading=Reading(None, why=why))


def agreed(stack: str, layers: Sequence[Seen]) -> tuple[tuple[Reading, ...], Scheme, str]:
    """How each layer is read, the scheme of all, and a note if they are read as a whole."""
    program = common_program([one.program for one in layers])
    why = next((one.reading.why for one in layers if one.reading.why), "")
    if program is not None:
        return tuple(one.reading for one in layers), scheme_of(program), why and f"{stack} {FALLBACK} ({why})"
    schemes = sorted({str(scheme_of(one.program)) for one in layers if one.adds})
    whole = f"{stack} {FALLBACK} ({why or 'they differ: ' + ', '.join(schemes)})"
    return (Reading(None, why=why),) * len(layers), scheme_of((Substep((WHOLE,)),)), whole
