"""A model as an initial-value problem: embed(inputs), one step of a scheme for each block, head(x)."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn, final

import torch
from torch import Tensor, nn

from ..integrate import Event, Observe, State, Step, integrate
from ..models import SplitstepModel
from ..scheme import Scheme
from ..stack import Stack
from .blocks import first_float, intercepted
from .examples import as_inputs
from .keys import state_name

Inputs = Mapping[str, Any] | Tensor
States = dict[tuple[str, int], Tensor]


class FlowRun(NamedTuple):
    """A pass that was seen: the state after the last block of the stack, what the model returned, and the context of
    the stack's fields."""

    x: State
    output: Any
    context: Any


class Flow(ABC):
    """Any Transformer as stacks of steps: `flow.head(integrate(flow.scheme, flow.steps, flow.embed(inputs),
    flow.context(inputs)))` is what the model itself returns.

    `stacks` has all stacks by name, in the order in which they run; `scheme` and `steps` are those of the last, which
    is the decoder of an encoder-decoder. `notes` says what could not be taken apart, and why.
    """

    def __init__(self, model: nn.Module, stacks: Mapping[str, Stack], notes: Sequence[str] = ()) -> None:
        self.model, self.stacks, self.notes = model, dict(stacks), tuple(notes)
        self.last: Any = None  # the context that was last made

    @property
    def main(self) -> str:
        """The name of the stack that leads to the model's output."""
        return list(self.stacks)[-1]

    @property
    def scheme(self) -> Scheme:
        return self.stacks[self.main].scheme

    @property
    def steps(self) -> list[Step]:
        return self.stacks[self.main].steps()

    @abstractmethod
    def run(self, inputs: Inputs, see: Observe, stack: str, layers: Collection[int] | None = None) -> FlowRun:
        """A pass of the model in which `see` is called with the events of a stack; those of other layers than `layers`
        may be left out."""

    @abstractmethod
    def embed(self, inputs: Inputs) -> State:
        """The state before the first block."""

    @abstractmethod
    def context(self, inputs: Inputs) -> Any:
        """What the fields read beside the state: masks, positions, routing and so on, of a pass of these inputs."""

    @abstractmethod
    def head(self, x: State, context: Any = None) -> Tensor:
        """What the model returns for this state after the last block. What else it needs, such as the mask of a
        classifier, is of the pass of this context, or of the inputs that `context` was last given."""

    def remembered(self, given: Any) -> Any:
        """The context that was given, or else the last one."""
        if (context := self.last if given is None else given) is None:
            raise ValueError("head needs a pass of the model: call flow.context(inputs) first, or pass its result")
        return context


class PassEnded(Exception):
    """Ends a pass of which no more is needed."""


@final
class OwnFlow(Flow):
    """A model of ours; nothing is traced. A doubled state starts as (x, x), and the head reads its mean; it belongs to
    the inputs last given, whatever the context."""

    def __init__(self, model: SplitstepModel) -> None:
        super().__init__(model.eval(), {name: one for name, one in model.named_modules() if isinstance(one, Stack)})

    def start(self, inputs: Inputs) -> tuple[State, Any]:
        """The state and the context that the last stack is given in a pass of these inputs."""
        self.last = as_inputs(self.model, inputs)
        found: list[Any] = []

        def stop(module: Any, forward: Any, args: Any, kwargs: Any) -> NoReturn:
            found.extend(args[:2])
            raise PassEnded

        with suppress(PassEnded), torch.no_grad(), intercepted([self.stacks[self.main]], stop):
            self.model(**self.last, use_cache=False)
        x, context = found
        return (x, x) if self.scheme.doubled else x, context

    def run(self, inputs: Inputs, see: Observe, stack: str, layers: Collection[int] | None = None) -> FlowRun:
        if stack != self.main:
            raise ValueError(f"only {self.main} of our own models is captured: use ss.observe(model, ...)")
        x, context = self.start(inputs)
        with torch.no_grad():
            end = integrate(self.scheme, self.steps, x, context, see)
            return FlowRun(end, self.head(end), context)

    def embed(self, inputs: Inputs) -> State:
        return self.start(inputs)[0]

    def context(self, inputs: Inputs) -> Any:
        return self.start(inputs)[1]

    def head(self, x: State, context: Any = None) -> Tensor:
        end = one_state(x)
        with intercepted([self.stacks[self.main]], lambda *call: end):
            found = first_float(self.model(**self.remembered(None), use_cache=False))
        assert found is not None
        return found


def one_state(x: State) -> Tensor:
    """A state as one tensor: of a doubled one, the mean of its halves."""
    return (x[0] + x[1]) / 2 if isinstance(x, tuple) else x


class Captured(NamedTuple):
    """States by name and layer, such as states["resid_mid", 3], and what the model returned."""

    states: States
    output: Any


@final
class Capture:
    """The states of one stack of a flow in a pass: `Capture(flow)(inputs).states["resid_mid", 3]`.

    The first pass of somebody else's model takes longer, to learn where the states are. Later ones cost about as much
    as the model alone. `layers` are those to keep; all by default.
    """

    def __init__(self, flow: Flow, stack: str | None = None, layers: Collection[int] | None = None) -> None:
        self.flow, self.stack = flow, flow.main if stack is None else stack
        if self.stack not in flow.stacks:
            raise ValueError(f"there is no stack {stack!r}: the model has {', '.join(flow.stacks)}")
        count = len(flow.stacks[self.stack].layers)
        self.layers = sorted(set(range(count) if layers is None else layers))
        if wrong := [layer for layer in self.layers if not 0 <= layer < count]:
            raise ValueError(f"there is no layer {wrong[0]}: {self.stack} has layers 0 to {count - 1}")

    def __call__(self, inputs: Inputs) -> Captured:
        stack, before = self.flow.stacks[self.stack], States()

        def see(event: Event) -> None:
            if event.site.branch == 0:
                before[state_name(event, stack.scheme, "before", stack.substeps)[:2]] = event.before

        needed = {*self.layers, *(layer + 1 for layer in self.layers)}  # the state after a layer is before the next
        passed = self.flow.run(inputs, see, self.stack, needed)
        end, found = one_state(passed.x), States()
        for i in self.layers:
            found |= {key: x for key, x in before.items() if key[1] == i}
            found["resid_post", i] = before.get(("resid_pre", i + 1), end)
        return Captured(found, passed.output)
