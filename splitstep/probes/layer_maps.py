"""Layers as maps of states, so that they can be differentiated after the pass."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, final

import torch
from torch import Tensor
from torch.func import jacrev
from torch.utils._pytree import tree_map

from ..fields import Context, Diffusion, exact_attention
from ..flows.passes import ForeignPass
from ..integrate import Event, Step
from ..scheme import Scheme
from .probe import Pass, Probe, begins_step, rows_of
from .splitting import advanced

Block = Callable[[Tensor, Any], Tensor]  # (x, context) -> x after the layer
ROWS = 1024  # of a Jacobian that are worked out at a time


class Layer(NamedTuple):
    """One layer in a pass of some texts: its scheme, its steps, the state [B, T, width] that it was given."""

    scheme: Scheme
    steps: Sequence[Step]
    x: Tensor
    context: Any

    @property
    def h(self) -> float:
        """The length of the layer."""
        return sum(step.h for step in self.steps)


class LayerBlocks(Probe):
    """A probe that looks at layers after the pass, with derivatives, on the first few texts.

    It keeps the fields of each step, the state at its start and one context. Cache, dropout and recording are off, and
    other types than the state's are converted, because autocast is off as well.
    """

    texts: ClassVar[int] = 2

    def __init__(self) -> None:
        self.steps: dict[int, Step] = {}
        self.starts: dict[int, Tensor] = {}
        self.context: Any = None

    def __call__(self, event: Event) -> None:
        number = event.site.step
        if begins_step(event):
            self.steps[number] = Step({}, event.t, 0.0)
            self.starts[number] = event.before.detach()[: self.texts].clone()
            if self.context is None:
                self.context = quiet(
                    rows_of(event.context, len(event.x), range(min(self.texts, len(event.x)))), event.x
                )
        known = self.steps[number]
        h = event.h / event.move.fraction if event.move.fraction else known.h
        self.steps[number] = Step({**known.fields, **event.fields}, known.t, h)

    def layers(self, passed: Pass) -> list[Layer]:
        """The layers of the stack, in order."""
        stack, steps, context = passed.stack, list(self.steps.values()), at_hand(self.context)
        firsts = range(0, len(steps), stack.substeps)
        return [Layer(stack.scheme, steps[i : i + stack.substeps], self.starts[i], context) for i in firsts]

    def real(self, passed: Pass) -> Tensor | None:
        """Which tokens of these texts are not padding."""
        return None if passed.real is None else passed.real[: self.texts]


def at_hand(context: Any) -> Any:
    """The context, after a traced model's blocks have been read: they cannot be while something is differentiated."""
    if isinstance(context, ForeignPass):
        _ = context.blocks
    return context


def quiet(context: Any, x: Tensor) -> Any:
    """The context without cache, dropout and recording, in the type of x."""
    if isinstance(context, Context):
        context = context._replace(seed=None, record=None, cache=None, cross_cache=None)
    return tree_map(
        lambda one: one.detach().to(x.dtype) if isinstance(one, Tensor) and one.is_floating_point() else one, context
    )


@contextmanager
def differentiable(x: Tensor) -> Iterator[None]:
    """Where layers have derivatives of every kind by the state, and none by the weights: without fused attention,
    without autocast."""
    with exact_attention(), torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        yield


def block_of(layer: Layer) -> Block:
    """A layer as a map (x, context) -> x, for any number of tokens. A doubled state starts as (x, x), and the result is
    its mean."""
    return lambda x, context: advanced(layer.scheme, layer.steps, x, context)


def token_block_of(layer: Layer, context: Any) -> Callable[[Tensor], Tensor]:
    """A layer as a map of one token's state [width], in a sequence of this token alone; `token_context` makes the
    context. Diffusion of a single token is 0."""
    steps = list[Step]()
    for step in layer.steps:
        fields = {name: Rest() if isinstance(field, Diffusion) else field for name, field in step.fields.items()}
        steps.append(step._replace(fields=fields))
    block = block_of(layer._replace(steps=steps))
    return lambda u: block(u[None, None], context)[0, 0]


class SingleToken(Exception):
    """Layers do not run on a sequence of one token."""


def token_context(context: Any, text: int, token: int, states: Sequence[Tensor]) -> Any:
    """The context of one token as a whole sequence, from that of a batch. States are those of the token before each
    layer: routing is held as there.

    Attention then sees the token itself and nothing else, so its position does not matter; a decoder still sees the
    encoder's states of this text.
    """
    if isinstance(context, ForeignPass):
        try:
            return context.of_token(text, token, states)
        except ValueError as error:
            raise SingleToken(str(error)) from None
    if not isinstance(context, Context) or context.memory is None:
        return Context()
    mask = context.memory_mask
    own = mask if mask is None or len(mask) == 1 else mask[text : text + 1]
    return Context(memory=context.memory[text : text + 1], memory_mask=own)


@final
class Rest:
    """A field that does nothing: its rate of change is zero or, where a part replaces the state, it is the state."""

    def __init__(self, replaces: bool = False) -> None:
        self.replaces = replaces

    def __call__(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return x if self.replaces else torch.zeros_like(x)

    def flow(self, t: Any, h: float, x: Tensor, context: Any) -> Tensor:
        return x


def last_real(real: Tensor | None, x: Tensor) -> list[int]:
    """The position of the last token of each text [B, T, ..] that is not padding."""
    if real is None:
        return [x.shape[1] - 1] * len(x)
    places = torch.arange(x.shape[1], device=real.device)
    return torch.where(real, places, 0).amax(-1).tolist()


def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """J_ij = df_i / dx_j [m, n] of f: [n] -> [m], in the type of x."""
    with differentiable(x):
        return jacrev(f, chunk_size=min(len(x), ROWS))(x).detach()  # pyright: ignore[reportReturnType]
