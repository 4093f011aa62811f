"""The flow of somebody else's model: its blocks are found, recorded and checked, without knowing their names."""

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor, nn

from ..integrate import Event, Field, Observe, Step, advance, integrate
from ..scheme import Scheme, Substep
from ..stack import Stack
from ..support.words import first_line, listed
from .blocks import Call, Forward, check_chains, exchanged, find_chains, floats, following, intercepted
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
from .examples import SEED, as_inputs, called, check_length, turned, varied
from .flow import Flow, FlowRun, Inputs, PassEnded
from .layout import PLAIN, Layout, is_plain, layout_of
from .parts import WHOLE, Piece
from .passes import BlockField, Blocks, ForeignPass, without_weights
from .routes import Increments, Routes
from .sums import distance

RANDOM = "it draws random numbers in each pass: here all passes draw the same, from one seed"
FOLLOWS = 1e-3  # of a change of the output, which may be missed
NO_LAYOUT = "states are not [batch, tokens, width], in any order of axes"
NO_CHAIN = "blocks do not follow one another"
FALLBACK = "is read by whole layers: attention and feed-forward could not be separated"


class Chain(NamedTuple):
    """A stack's blocks in the order of their calls, where among their arguments the state is, and how they are read."""

    modules: tuple[nn.Module, ...]
    position: int  # among the arguments that look like it
    shape: torch.Size  # in the first pass
    layout: Layout = PLAIN
    readings: tuple[Reading, ...] = ()

    def state(self, args: Any, kwargs: Any) -> Tensor:
        """The state, as the model lays it out."""
        alike = [one for one in floats((args, kwargs)) if self.is_like(one)]
        return alike[self.position]

    def is_like(self, x: Tensor) -> bool:
        return x.dim() == len(self.shape) and all(x.shape[i] == self.shape[i] for i in self.layout.width)


def chain_of(calls: Sequence[Call]) -> Chain:
    """The chain of these calls; how their states are laid out is not known yet."""
    x = calls[0].states[0]
    alike = [one for one in calls[0].given if one.shape == x.shape]
    position = next(i for i, one in enumerate(alike) if one is x)
    return Chain(tuple(call.module for call in calls), position, x.shape)


@final
class ForeignFlow(Flow):
    """A model of any kind, found by running it on example inputs, and refused unless its scheme gives its output."""

    def __init__(self, model: nn.Module, example: Inputs, name: str) -> None:
        self.model, self.name, self.routes, self.draws = model, name, Routes(), False
        self.left_out: dict[str, str] = {}  # stacks, and why
        given = as_inputs(model, example)
        chains, seen = self.traced(given)
        stacks, notes = dict[str, Stack](), [RANDOM] if self.is_random(given) else list[str]()
        notes += [f"{stack} is left out: its {why}" for stack, why in self.left_out.items()]
        self.chains = dict[str, Chain]()
        for stack, layers in seen.items():
            readings, scheme, note = agreed(stack, layers)
            self.chains[stack] = chains[stack]._replace(readings=readings)
            stacks[stack] = Stack(scheme, len(layers), partial(BlockField, stack))
            notes += [note] if note else []
        super().__init__(model, stacks, notes)
        for one in (given, turned(given)):
            last = self.check_output(one)
        self.check_moved(last)
        self.notes += (*differences(seen), *without_weights(last))
        for note in notes:
            warnings.warn(f"{name}: {note}", stacklevel=3)

    def traced(self, given: Mapping[str, Any]) -> tuple[dict[str, Chain], dict[str, list[ReadBlock]]]:
        """The chains of blocks, and how each block is read."""
        chains, seen, error = self.twice(given)
        if error:
            raise ValueError(
                f"{self.name} is not a function: run twice on one input, its output differs by {error:.1%}"
            )
        if not chains and self.left_out:
            stack, why = next(iter(self.left_out.items()))
            raise ValueError(f"{self.name}: {stack} cannot be inspected: its {why}")
        if not (seen := with_residuals(seen)):
            raise ValueError(
                f"{self.name} is not a Transformer: it has no repeated blocks with a residual connection around them"
            )
        return chains, seen

    def twice(self, given: Mapping[str, Any]) -> tuple[dict[str, Chain], dict[str, list[ReadBlock]], float]:
        """Find the blocks in one pass, and read them in another; and how far the outputs of both are apart."""
        outputs = list[Any]()
        try:
            chains = find_chains(self.model, lambda: outputs.append(self.call(given)))
        except Exception as error:  # other people's code
            raise ValueError(f"{self.name} does not take these inputs: {first_line(error)}") from None
        if not state_of(outputs[0]).isfinite().all():
            raise ValueError(f"{self.name} gives numbers that are not finite, so nothing can be compared with them")
        check_chains(self.name, calls := following(chains))
        dropped = [name for name in chains if name not in calls and any(chains[name][0].module.children())]
        self.left_out = dict.fromkeys(dropped, NO_CHAIN)
        chains = self.laid_out({stack: chain_of(own) for stack, own in calls.items()}, given)
        seen: dict[str, list[ReadBlock]] = {stack: [] for stack in chains}
        outputs.append(self.watch(given, chains, lambda stack, call: kept(seen[stack], take_apart(call))))
        one, two = map(state_of, outputs)
        error = distance(two, one) if one.shape == two.shape else math.inf
        return chains, seen, 0.0 if error <= tolerance(one) else error

    def laid_out(self, chains: Mapping[str, Chain], given: Mapping[str, Any]) -> dict[str, Chain]:
        """The chains with the layouts of their states; those without one are left out."""
        shapes = {stack: chain.shape for stack, chain in chains.items()}
        if all(is_plain(shape, given) for shape in shapes.values()):
            return dict(chains)
        starts, *others = (self.starts_of(chains, one) for one in (given, *varied(given)))
        found = {stack: layout_of(x, given, *(one.get(stack) for one in others)) for stack, x in starts.items()}
        self.left_out |= {stack: NO_LAYOUT for stack, one in found.items() if one is None}
        return {stack: chains[stack]._replace(layout=one) for stack, one in found.items() if one is not None}

    def starts_of(self, chains: Mapping[str, Chain], given: Mapping[str, Any]) -> dict[str, Tensor]:
        """The states that the stacks are given; none if the model does not take these inputs."""
        found: dict[str, Tensor] = {}
        homes = {id(chain.modules[0]): stack for stack, chain in chains.items()}

        def see(module: nn.Module, forward: Forward, args: Any, kwargs: Any) -> Any:
            alike = [one for one in floats((args, kwargs)) if one.dim() == len(chains[homes[id(module)]].shape)]
            found.setdefault(homes[id(module)], alike[chains[homes[id(module)]].position].clone())
            if len(found) == len(chains):
                raise PassEnded
            return forward(*args, **kwargs)

        with suppress(Exception), torch.no_grad(), intercepted([one.modules[0] for one in chains.values()], see):
            self.call(given)
        return found

    @torch.no_grad()
    def is_random(self, inputs: Mapping[str, Any]) -> bool:
        """Whether the output depends on the random numbers that a pass draws; some are drawn and not used."""
        outputs = [state_of(self.call(inputs, seed)) for seed in range(SEED, SEED + 4) if self.draws]
        return any(distance(one, outputs[0]) > tolerance(one) for one in outputs[1:])

    def call(self, inputs: Mapping[str, Any], seed: int = SEED) -> Any:
        output, drew = called(self.model, inputs, seed)
        self.draws = self.draws or drew
        return output

    def watch(
        self, inputs: Mapping[str, Any], chains: Mapping[str, Chain], see: Callable[[str, BlockCall], Any]
    ) -> Any:
        """A pass in which see(stack, call) answers for every block. Each must be given what the one before returned."""
        homes = {id(module): stack for stack, chain in chains.items() for module in chain.modules}
        last = dict[str, Tensor]()

        def wrapper(module: nn.Module, forward: Forward, args: Any, kwargs: Any) -> Any:
            stack = homes[id(module)]
            own = chains[stack].state(args, kwargs)
            if stack in last and own is not last[stack] and not torch.equal(own, last[stack]):
                change = distance(own, last[stack]) if own.shape == last[stack].shape else math.inf
                raise ValueError(f"{self.name}: the state changes by {change:.1%} between two of the blocks {stack}")
            returned = see(stack, BlockCall(forward, args, kwargs, own, chains[stack].layout))
            last[stack] = state_of(returned)
            return returned

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
                end = call.on(call.own)
            else:
                seen[layer] = one = self.routes.read((stack, layer), call, chain.readings[layer])
                end = one.returned
            return end

        output = self.watch(given, {stack: chain}, block)
        x = chain.layout.seen(state_of(end)).clone()
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
        end = self.chains[self.main].layout.seen(state_of(blocks[self.main][-1].returned))
        return ForeignPass(inputs, end.shape, lambda: blocks, self.again)

    def read_blocks(self, inputs: Mapping[str, Any], states: Sequence[Tensor] | None = None) -> Blocks:
        """All blocks in a pass, which ends with the last one, read as they were read before."""
        seen: dict[str, list[ReadBlock]] = {stack: [] for stack in self.stacks}

        def see(stack: str, call: BlockCall) -> Any:
            layers, readings = seen[stack], self.chains[stack].readings
            here = call if states is None or stack != self.main else call.moved(call.frame.own(states[len(layers)]))
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
        if x.shape != of.shape:
            raise ValueError(f"head was given a state of shape {list(x.shape)}; its pass has {list(of.shape)}")
        layout, results = self.chains[self.main].layout, [one.returned for one in of.blocks[self.main]]
        states = [state_of(one) for one in results]
        unread = [torch.full_like(one, torch.nan) for one in states[:-1]]  # only the last state may lead to the output
        new = [*unread, layout.own(x, states[-1].shape)]
        returned = iter([exchanged(*one) for one in zip(results, states, new, strict=True)])
        with intercepted(self.chains[self.main].modules, lambda *call: next(returned)):
            return state_of(self.call(of.inputs))

    @torch.no_grad()
    def check_moved(self, of: ForeignPass) -> None:
        """Move the state before the first block: the scheme must follow the model there. It does not if blocks hand on
        more than their state. Large moves may change a choice of experts, which is held; then smaller ones decide."""
        x, rest = self.embed(of.inputs), state_of(self.call(of.inputs)).double()
        rounding = (self.ours(x, of) - rest).norm() + torch.finfo(x.dtype).eps / 10 * rest.norm()
        missed = list[float]()
        for move in moves(x):
            own = self.moved(of.inputs, x + move).double()
            missed.append(float((self.ours(x + move, of) - own).norm() / ((own - rest).norm() + rounding / FOLLOWS)))
            if missed[-1] <= FOLLOWS:
                return
        if not all(map(math.isfinite, missed)):
            raise ValueError(f"{self.name}: some of its states are too large to be numbers, so it cannot be measured")
        raise ValueError(
            f"{self.name}: the blocks {self.main} hand on more than their state: when it moves, {self.scheme} misses "
            f"{missed[0]:.1%} of how the output changes"
        )

    def ours(self, x: Tensor, of: ForeignPass) -> Tensor:
        """What the scheme and what follows it give for this state before the first block."""
        return self.head(integrate(self.scheme, self.steps, x, of), of)

    def moved(self, inputs: Mapping[str, Any], u: Tensor) -> Tensor:
        """What the model itself returns if this is the state before its first block."""
        first = iter([u])

        def block(stack: str, call: BlockCall) -> Any:
            return call.on(call.own if (x := next(first, None)) is None else call.frame.own(x))

        return state_of(self.watch(inputs, {self.main: self.chains[self.main]}, block))

    @torch.no_grad()
    def check_output(self, inputs: Mapping[str, Any]) -> ForeignPass:
        """A pass of these inputs, in which the scheme and what follows it must give the model's output."""
        own = state_of(self.call(inputs))
        try:
            of = self.context(inputs)
            error = distance(self.ours(self.embed(inputs), of), own)
        except Exception as error:  # other people's code
            raise ValueError(f"{self.name}: its fields do not run again: {first_line(error)}") from None
        if not error <= tolerance(own):
            why = "it reads other states too" if math.isnan(error) else f"they differ from it by {error:.1%}"
            blocks = f"the blocks {self.main}, {self.scheme}, and what follows them"
            raise ValueError(f"{self.name}: {blocks} do not give its output: {why}")
        return of


def tell(scheme: Scheme, layer: int, step: Step, seen: Increments, context: ForeignPass, see: Observe) -> None:
    """The events of one block whose fields have been evaluated."""

    def held(name: str) -> Field:
        return lambda t, x, context: seen.fields[name] if name in seen.fields else missing(name, x)

    def told(event: Event) -> None:
        see(event._replace(fields={name: step.fields[name] for name in event.fields}))

    evaluated = step._replace(fields={name: held(name) for name in step.fields})
    advance(scheme, layer, evaluated, seen.x, context, told, None)


def moves(x: Tensor) -> list[Tensor]:
    """Ways to move a state [batch, tokens, width]: everywhere, and less and less in one token."""
    noise = x.std() * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(x)
    token = torch.zeros_like(x)
    token[0, 0] = noise[0, 0]
    return [1e-2 * noise, 1e-3 * token, 1e-4 * token]


def kept(layers: list[ReadBlock], one: ReadBlock) -> Any:
    layers.append(one)
    return one.returned


def with_residuals(seen: Mapping[str, list[ReadBlock]]) -> dict[str, list[ReadBlock]]:
    """The stacks whose blocks add to their state; if there are none, those that mix tokens, by whole layers."""
    if found := {stack: layers for stack, layers in seen.items() if any(one.adds for one in layers)}:
        return found
    whole, reading = [Piece(Substep((WHOLE,)), {})], Reading(None, why="no part of a block adds to its state")
    mixing = {stack: layers for stack, layers in seen.items() if any(one.mixes for one in layers)}
    return {stack: [one._replace(pieces=whole, reading=reading) for one in layers] for stack, layers in mixing.items()}


def agreed(stack: str, layers: Sequence[ReadBlock]) -> tuple[tuple[Reading, ...], Scheme, str]:
    """How each layer is read, the scheme of all, and a note if they are read as a whole."""
    programs = [one.program for one in layers]
    why = next((one.reading.why for one in layers if one.reading.why), "")
    program = None if why and len({*programs}) > 1 else common_program(programs)
    if program is not None:
        return tuple(one.reading for one in layers), scheme_of(program), why and f"{stack} {FALLBACK} ({why})"
    schemes = sorted({str(scheme_of(one.program)) for one in layers if one.adds})
    whole = f"{stack} {FALLBACK} ({why or 'they differ: ' + ', '.join(schemes)})"
    return (Reading(None, why=why),) * len(layers), scheme_of((Substep((WHOLE,)),)), whole


def differences(seen: Mapping[str, Sequence[ReadBlock]]) -> Iterator[str]:
    """A line for each stack whose layers do not have all parts of its scheme."""
    for stack, layers in seen.items():
        found = dict[str, list[str]]()
        for number, one in enumerate(layers):
            found.setdefault(str(scheme_of(one.program)), []).append(str(number))
        if len(found) > 1:
            each = (f"{scheme} in layer{'s' * (len(own) > 1)} {listed(own)}" for scheme, own in found.items())
            yield f"{stack} has layers of several schemes: {'; '.join(each)}"
