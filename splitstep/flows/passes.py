"""A pass of a traced model: what its fields read beside the state, for all of its inputs, some, or a single token."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor, nn

from ..integrate import Time
from ..support.words import first_line
from .decompose import ReadBlock, missing
from .examples import examples_of, token_of
from .parts import MIXING

Blocks = Mapping[str, Sequence[ReadBlock]]  # by the stack's name
Again = Callable[[Mapping[str, Any], Sequence[Tensor] | None], "ForeignPass"]


@dataclass(frozen=True)
class ForeignPass:
    """The blocks of a model as they were read in a pass of these inputs: masks and positions have their shapes.

    They are read when something asks for them. `shape` is that of the main stack's state, [B, T, width]; `again` runs
    the blocks on other inputs, and reads those of the main stack at other states if they are given.
    """

    inputs: Mapping[str, Any]
    shape: torch.Size
    read: Callable[[], Blocks]
    again: Again
    parts: dict[tuple[int, ...], "ForeignPass"] = field(default_factory=dict["tuple[int, ...]", "ForeignPass"])

    @cached_property
    def blocks(self) -> Blocks:
        return self.read()

    def of_examples(self, chosen: Sequence[int]) -> "ForeignPass":
        """The pass of some of the examples, in this order; one may come several times."""
        key = tuple(chosen)
        if key == tuple(range(self.shape[0])):
            return self
        if key not in self.parts:
            self.parts[key] = self.again(examples_of(self.inputs, self.shape[0], key), None)
        return self.parts[key]

    def of_token(self, example: int, token: int, states: Sequence[Tensor]) -> "ForeignPass":
        """The pass of one token as a whole sequence, read at these states [width] of the main stack's blocks."""
        inputs = examples_of(self.inputs, self.shape[0], (example,))
        try:
            return self.again(token_of(inputs, self.shape[1], token), [one[None, None] for one in states])
        except (ValueError, RuntimeError, IndexError) as error:  # blocks that need more than one token
            raise ValueError(f"its blocks do not run on a single token: {first_line(error)}") from None


@final
class BlockField(nn.Module):
    """A field of one block that runs as the context's pass recorded it."""

    def __init__(self, stack: str, name: str, layer: int) -> None:
        super().__init__()
        self.stack, self.layer, self.name = stack, layer, name

    def forward(self, t: Time, x: Tensor, context: ForeignPass) -> Tensor:
        f = context.blocks[self.stack][self.layer].fields.get(self.name)
        return missing(self.name, x) if f is None else f(x)

    def weights(self, t: Time, x: Tensor, context: ForeignPass) -> Tensor | None:
        """The attention weights [B, heads, T, S] at this state; None if none were found."""
        f = context.blocks[self.stack][self.layer].weights.get(self.name)
        return None if f is None else f(x)


def without_weights(passed: ForeignPass) -> Iterator[str]:
    """A line for each stack with fields whose attention weights are not known."""
    for stack, layers in passed.blocks.items():
        names = {name for one in layers for name in one.fields if name[0] in MIXING and name not in one.weights}
        if names:
            yield (
                f"{stack} has no attention weights of {', '.join(sorted(names))}: there is no softmax over keys that "
                "is multiplied by values"
            )
