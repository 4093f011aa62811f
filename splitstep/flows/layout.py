"""Which axes of a model's own states are the batch, the tokens and the width: found by giving it other inputs."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

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


def batch_of(inputs: Mapping[str, Any]) -> int:
    """How many examples there are: of the first input with several axes."""
    return next(len(x) for x in inputs.values() if isinstance(x, Tensor) and x.ndim > 1)


def is_plain(shape: torch.Size, inputs: Mapping[str, Any]) -> bool:
    """Whether a state can only be [batch, tokens, width] of a text."""
    texts = {x.shape[1] for name, x in inputs.items() if name.endswith("input_ids")}
    if len(shape) != 3 or len(set(shape)) < 3:
        return False
    return shape[0] == batch_of(inputs) and shape[1] in texts and shape[2] not in texts


def with_more_examples(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same inputs, and the first example once more."""
    batch = batch_of(inputs)
    alike = {name: isinstance(x, Tensor) and x.ndim > 0 and len(x) == batch for name, x in inputs.items()}
    return {name: torch.cat([x, x[:1]]) if alike[name] else x for name, x in inputs.items()}


def with_other_length(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Texts without their last token, images of twice the height and width, sounds of twice the length."""
    lengths = {x.shape[1] for name, x in inputs.items() if name.endswith("input_ids")}

    def other(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.ndim < 2:
            return x
        if x.is_floating_point():
            return x.repeat(*(1,) * min(2, x.ndim - 1), *(2,) * (x.ndim - min(2, x.ndim - 1)))
        return x[:, :-1] if x.shape[1] in lengths else x

    return {name: other(x) for name, x in inputs.items()}


def with_start_moved(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Texts with another first token, images with another first pixel, sounds with another first number."""

    def other(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.ndim < 2 or x.dtype is torch.bool:
            return x
        moved = x.clone()
        start = moved[(..., *[slice(1)] * min(2, x.ndim - 1))]
        start.copy_(start + 1 if x.is_floating_point() else torch.where(start > 0, start - 1, start + 1))
        return moved

    return {name: x if name.endswith("mask") else other(x) for name, x in inputs.items()}


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
