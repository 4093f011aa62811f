"""Which axes of a model's own states are the batch, the tokens and the width: found by giving it other inputs."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .examples import batch_of, text_lengths

Axes = tuple[int, ...]


class Layout(NamedTuple):
    """The axes of a model's own states. We see them as [batch, tokens, width], with all tokens along one axis."""

    batch: int = 0
    tokens: Axes = (1,)
    width: Axes = (2,)

    @property
    def order(self) -> Axes:
        return (self.batch, *self.tokens, *self.width)

    def seen(self, x: Tensor) -> Tensor:
        """The model's own state as [batch, tokens, width]."""
        if self == PLAIN:
            return x
        many = x.shape[self.batch], prod(x.shape[i] for i in self.tokens), prod(x.shape[i] for i in self.width)
        return x.permute(self.order).reshape(many)

    def own(self, u: Tensor, shape: torch.Size) -> Tensor:
        """[batch, tokens, width] as the model's own state, which has this shape."""
        if self == PLAIN:
            return u
        back = sorted(range(len(shape)), key=lambda i: self.order[i])
        return u.reshape([shape[i] for i in self.order]).permute(back).contiguous()


PLAIN = Layout()


class Frame(NamedTuple):
    """The states of one pass: how the model lays them out, and their shape there."""

    layout: Layout
    shape: torch.Size

    def seen(self, x: Tensor) -> Tensor:
        """As many numbers as the state has, as [batch, tokens, width]."""
        return self.layout.seen(x.reshape(self.shape))

    def own(self, u: Tensor) -> Tensor:
        return self.layout.own(u, self.shape)

    def turned(self, axes: Axes) -> "Frame":
        """The same states with their axes in this order."""
        batch, tokens, width = self.layout
        layout = Layout(axes.index(batch), tuple(map(axes.index, tokens)), tuple(map(axes.index, width)))
        return Frame(layout, torch.Size(self.shape[i] for i in axes))


def is_plain(shape: torch.Size, inputs: Mapping[str, Any]) -> bool:
    """Whether a state can only be [batch, tokens, width] of a text."""
    texts = text_lengths(inputs)
    fits = len(shape) == 3 and len(set(shape)) == 3
    return fits and shape[0] == batch_of(inputs) and shape[1] in texts and shape[2] not in texts


def layout_of(
    x: Tensor, inputs: Mapping[str, Any], more: Tensor | None, other: Tensor | None, moved: Tensor | None
) -> Layout | None:
    """The layout of a state in a pass of these inputs, from what it is with one more example, with inputs of another
    length, and with another start of each input, which matters to a model that takes no other length. What no input
    tells is in this order: batch, tokens, width. None if the state is not that in any order: only texts may have a
    width of several axes, which are streams; of other inputs not all axes are known."""
    batches = grown(x, more)
    lengths = grown(x, other) or [i for i in partly_moved(x, moved) if i not in batches]
    if len(batches) != 1 or x.shape[batches[0]] != batch_of(inputs) or batches[0] in lengths:
        return None
    rest = [i for i in range(x.dim()) if i not in batches]
    if not lengths and len(rest) == 2:
        lengths = rest[:1]
    width = tuple(i for i in rest if i not in lengths)
    known = len(width) == 1 or (width and any(name.endswith("input_ids") for name in inputs))
    return Layout(batches[0], tuple(lengths), width) if lengths and known else None


def grown(x: Tensor, other: Tensor | None) -> list[int]:
    """The axes along which a state has grown or shrunk."""
    if other is None or other.dim() != x.dim():
        return []
    return [i for i, (a, b) in enumerate(zip(x.shape, other.shape, strict=True)) if a != b]


def partly_moved(x: Tensor, moved: Tensor | None) -> list[int]:
    """The axes along which a state has changed at some places and not at others."""
    if moved is None or moved.shape != x.shape:
        return []
    along = [(x != moved).transpose(0, i).flatten(1).any(1) for i in range(x.dim())]
    return [i for i, one in enumerate(along) if one.any() and not one.all()]
