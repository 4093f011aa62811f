"""The flow of somebody else's model: its blocks are found, recorded and checked, without knowing their names."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor, nn

from ..integrate import Event, Field, Observe, Step, advance
from ..scheme import Scheme, Substep
from ..stack import Stack
from ..support.words import first_line
from .blocks import Call, Forward, check_chains, exchanged, find_chains, floats, intercepted
from .decompose import (
    BlockCall,
    ReadBlock,
    Reading,
    common_program,
    missing,
    read_again,
    scheme_of,
    state_of,
    take_apart,
    tolerance,
)
from .examples import as_inputs, check_length
from .flow import Flow, FlowRun, Inputs, PassEnded
from .parts import WHOLE, Piece
from .passes import BlockField, Blocks, ForeignPass, without_weights
from .routes import Increments, Routes
from .sums import distance

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
class ForeignFlow(Flow):
    """A model of any kind, found by running it on example inputs."""

    def __init__(self, model: nn.Module, example: Inputs, name: str) -> None:
        self.model, self.name, self.routes = model, name, Routes()
        given = as_inputs(model, example)
        calls = find_chains(model, partial(self.call, given))
        check_chains(name, calls)
        chains = {stack: chain_of(own) for stack, own in calls.items()}
        seen: dict[str, list[ReadBlock]] = {stack: [] for stack in chains}
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
            stacks[stack] = Stack(scheme, len(layers), partial(BlockField, stack))
            notes += [note] if note else []
        super().__init__(model, stacks, notes)
        self.notes += tuple(without_weights(self.check_head(given)))
        for note in notes:
            warnings.warn(f"{name}: {note}", stacklevel=3)

    def call(self, inputs: Mapping[str, Any]) -> Any:
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
                return self.call(inputs)
        except IndexError as error:  # a table of tokens or positions is too short
            raise ValueError(f"{self.name} does not take these inputs: {first_line(error)}") from None

    def run(self, inputs: Inputs, see: Observe, stack: str, layers: Collection[int] | None = None) -> FlowRun:
        """The model runs as it is; then its blocks are told as events. Fields are read anew if something asks."""
        given, chain = self.given(inputs), self.chains[stack]
        seen, end, numbers = dict[int, Increments](), Any, iter(range(len(chain.modules)))

        def block(_: str, call: BlockCall) -> Any:
            nonlocal end
            layer = next(numbers)
            if layers is not None and layer not in layers:
                end = call.at(call.x)
            else:
                seen[layer] = one = self.routes.read((stack, layer), call, chain.readings[layer])
                end = one.returned
            return end

        output = self.watch(given, {stack: chain}, block)
        x = state_of(end).clone()
        self.last = ForeignPass(given, x.shape, partial(self.read_blocks, given), self.again)
        with torch.no_grad():
            for layer, step in enumerate(self.stacks[stack].steps()):
                if layer in seen:
                    tell(self.stacks[stack].scheme, layer, step, seen.pop(layer), self.last, see)
        return FlowRun(x, output, self.last)

    def embed(self, inputs: Inputs) -> Tensor:
        found: list[Tensor] = []

        def stop(stack: str, call: BlockCall) -> NoReturn:
            found.append(call.x)
            raise PassEnded

        with suppress(PassEnded):
            self.watch(self.given(inputs), {self.main: self.chains[self.main]}, stop)
        return found[0].clone()

    def context(self, inputs: Inputs) -> ForeignPass:
        self.last = self.again(self.given(inputs), None)
        return self.last

    def again(self, inputs: Mapping[str, Any], states: Sequence[Tensor] | None) -> ForeignPass:
        """A pass whose blocks are read now; if states are given, those of the main stack are read there."""
        blocks = self.read_blocks(inputs, states)
        return ForeignPass(inputs, state_of(blocks[self.main][-1].returned).shape, lambda: blocks, self.again)

    def read_blocks(self, inputs: Mapping[str, Any], states: Sequence[Tensor] | None = None) -> Blocks:
        """All blocks in a pass, which ends with the last one, read as they were read before."""
        seen: dict[str, list[ReadBlock]] = {stack: [] for stack in self.stacks}

        def see(stack: str, call: BlockCall) -> Any:
            layers, readings = seen[stack], self.chains[stack].readings
            here = call if states is None or stack != self.main else call.moved(states[len(layers)])
            returned = kept(layers, read_again(here, readings[len(layers)]))
            if stack == self.main and len(layers) == len(readings):
                raise PassEnded
            return returned

        with suppress(PassEnded):
            self.watch(inputs, self.chains, see)
        return seen

    def given(self, inputs: Inputs) -> Mapping[str, Any]:
        check_length(self.model, self.name, given := as_inputs(self.model, inputs))
        return given

    def head(self, x: Tensor, context: ForeignPass | None = None) -> Tensor:
        of: ForeignPass = self.remembered(context)
        results = [one.returned for one in of.blocks[self.main]]
        if x.shape != (shape := state_of(results[-1]).shape):
            raise ValueError(f"head was given a state of shape {list(x.shape)}; its pass has {list(shape)}")
        returned = iter([*results[:-1], exchanged(results[-1], state_of(results[-1]), x)])
        with intercepted(self.chains[self.main].modules, lambda *call: next(returned)):
            return state_of(self.call(of.inputs))

    def check_head(self, inputs: Mapping[str, Any]) -> ForeignPass:
        """A pass of these inputs, in which the last stack must lead to the model's output."""
        of = self.context(inputs)
        end = state_of(of.blocks[self.main][-1].returned)
        with torch.no_grad():
            error = distance(self.head(end, of), state_of(self.call(inputs)))
        if error > tolerance(end):
            raise ValueError(f"{self.name}: what follows the blocks {self.main} does not give its output again")
        return of


def tell(scheme: Scheme, layer: int, step: Step, seen: Increments, context: ForeignPass, see: Observe) -> None:
    """The events of one block whose fields have been evaluated."""

    def held(name: str) -> Field:
        return lambda t, x, context: seen.fields[name] if name in seen.fields else missing(name, x)

    def told(event: Event) -> None:
        see(event._replace(fields={name: step.fields[name] for name in event.fields}))

    evaluated = step._replace(fields={name: held(name) for name in step.fields})
    advance(scheme, layer, evaluated, seen.x, context, told, None)


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


def kept(layers: list[ReadBlock], one: ReadBlock) -> Any:
    layers.append(one)
    return one.returned


def with_residuals(seen: Mapping[str, list[ReadBlock]]) -> dict[str, list[ReadBlock]]:
    """The stacks whose blocks add to their state; if there are none, those that mix tokens, by whole layers."""
    if found := {stack: layers for stack, layers in seen.items() if any(one.adds for one in layers)}:
        return found
    return {
        stack: [unadded(one) for one in layers] for stack, layers in seen.items() if any(one.mixes for one in layers)
    }


def unadded(one: ReadBlock) -> ReadBlock:
    why = "no part of a block adds to its state"
    return one._replace(pieces=[Piece(Substep((WHOLE,)), {})], reading=Reading(None, why=why))


def agreed(stack: str, layers: Sequence[ReadBlock]) -> tuple[tuple[Reading, ...], Scheme, str]:
    """How each layer is read, the scheme of all, and a note if they are read as a whole."""
    program = common_program([one.program for one in layers])
    why = next((one.reading.why for one in layers if one.reading.why), "")
    if program is not None:
        return tuple(one.reading for one in layers), scheme_of(program), why and f"{stack} {FALLBACK} ({why})"
    schemes = sorted({str(scheme_of(one.program)) for one in layers if one.adds})
    whole = f"{stack} {FALLBACK} ({why or 'they differ: ' + ', '.join(schemes)})"
    return (Reading(None, why=why),) * len(layers), scheme_of((Substep((WHOLE,)),)), whole
