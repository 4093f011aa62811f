"""A pass of a traced model: what its fields read beside the state, for all of its inputs, some, or a single token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from torch import Tensor, nn, tensor

from ..integrate import Time
from ..support.words import first_line
from .decompose import Seen, missing, state_of
from .naming import MIXING, Function

Layers = Mapping[str, Sequence[Mapping[str, Function]]]  # functions by the stack's name, the layer and the field's name
Again = Callable[[Mapping[str, Any], Sequence[Tensor] | None], "Pass"]


@dataclass(frozen=True)
class Pass:
    """The fields of each block, bound to the inputs of one pass: masks and positions have their shapes.

    `again` runs the blocks on other inputs, and reads those of the main stack at other states if they are given.
    """

    inputs: Mapping[str, Any]
    fields: Layers
    weights: Layers  # of attention
    returned: Mapping[str, Sequence[Any]]  # by each block
    output: Any
    again: Again
    parts: dict[tuple[int, ...], Pass] = field(default_factory=dict["tuple[int, ...]", "Pass"])

    @property
    def state(self) -> Tensor:
        """The state after the last block, [B, T, width]."""
        return state_of(list(self.returned.values())[-1][-1])

    def of_examples(self, chosen: Sequence[int]) -> Pass:
        """The pass of some of the examples, in this order; one may come several times."""
        key = tuple(chosen)
        if key == tuple(range(len(self.state))):
            return self
        if key not in self.parts:
            self.parts[key] = self.again(examples_of(self.inputs, len(self.state), key), None)
        return self.parts[key]

    def of_token(self, example: int, token: int, states: Sequence[Tensor]) -> Pass:
        """The pass of one token as a whole sequence, read at these states [width] of the main stack's blocks."""
        inputs = examples_of(self.inputs, len(self.state), (example,))
        try:
            return self.again(token_of(inputs, self.state.shape[1], token), [one[None, None] for one in states])
        except (ValueError, RuntimeError, IndexError) as error:  # blocks that need more than one token
            raise ValueError(f"its blocks do not run on a single token: {first_line(error)}") from None


@final
class Bound(nn.Module):
    """A field of one block that runs as the context's pass recorded it."""

    def __init__(self, stack: str, layer: int, name: str) -> None:
        super().__init__()
        self.stack, self.layer, self.name = stack, layer, name

    def forward(self, t: Time, x: Tensor, context: Pass) -> Tensor:
        f = context.fields[self.stack][self.layer].get(self.name)
        return missing(self.name, x) if f is None else f(x)

    def weights(self, t: Time, x: Tensor, context: Pass) -> Tensor | None:
        """The attention weights [B, heads, T, S] at this state; None if none were found."""
        f = context.weights[self.stack][self.layer].get(self.name)
        return None if f is None else f(x)


def bound(inputs: Mapping[str, Any], seen: Mapping[str, Sequence[Seen]], output: Any, again: Again) -> Pass:
    fields = {
        stack: [{name: f for piece in layer.pieces for name, f in piece.fields.items()} for layer in layers]
        for stack, layers in seen.items()
    }
    weights = {
        stack: [{name: f for piece in layer.pieces for name, f in piece.weights.items()} for layer in layers]
        for stack, layers in seen.items()
    }
    returned = {stack: [one.returned for one in layers] for stack, layers in seen.items()}
    return Pass(inputs, fields, weights, returned, output, again)


def examples_of(inputs: Mapping[str, Any], batch: int, chosen: Sequence[int]) -> dict[str, Any]:
    """The inputs of some examples of a batch."""

    def some(value: Any) -> Any:
        if not (isinstance(value, Tensor) and value.ndim and len(value) == batch):
            return value
        return value[tensor(chosen, device=value.device)]

    return {name: some(value) for name, value in inputs.items()}


def token_of(inputs: Mapping[str, Any], length: int, token: int) -> dict[str, Any]:
    """The inputs of one token of a text: a decoder's, if there is one. Images stay whole."""
    decodes = any(name.startswith("decoder_") for name in inputs)

    def one(name: str, value: Any) -> Any:
        along = isinstance(value, Tensor) and value.ndim in (2, 3) and value.shape[1] == length
        own = not decodes or name.startswith("decoder_")
        return value[:, token : token + 1] if along and own else value

    return {name: one(name, value) for name, value in inputs.items()}


def without_weights(passed: Pass) -> Iterator[str]:
    """A line for each stack with fields whose attention weights are not known."""
    for stack, layers in passed.fields.items():
        known = passed.weights[stack]
        names = {name for i, layer in enumerate(layers) for name in layer if name[0] in MIXING and name not in known[i]}
        if names:
            yield (
                f"{stack} has no attention weights of {', '.join(sorted(names))}: there is no softmax over keys that "
                "is multiplied by values"
            )
