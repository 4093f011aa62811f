"""The directions that a layer stretches most, over all tokens of a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from .blocks import Layer, LayerBlocks, block_of, differentiable
from .low_rank import Leading, leading_singular
from .probe import Figures, Pass, named_over_texts, rows_of

COUNT, EXTRA, ROUNDS = 4, 2, 12


@final
class LeadingSingular(LayerBlocks):
    """The 4 leading singular values s of the Jacobian of each layer on the whole sequence, [T width, T width], without
    ever having this matrix: randomised block Krylov iteration on jvp and vjp (`low_rank.py`).

    Series "s 1" .. "s 4" by layer, means over the first 2 texts with their spread; "tokens": of the vector v of s 1,
    the participation ratio 1 / sum_t |v_t|^4 of the tokens, |v| = 1, so 1 means that a single token is stretched.
    Padding neither moves nor counts.
    """

    def figures(self, passed: Pass) -> Figures:
        values = torch.stack([self.measured(layer, self.real(passed)) for layer in self.layers(passed)])
        return named_over_texts([*(f"s {i + 1}" for i in range(values.shape[-1] - 1)), "tokens"], values)

    def measured(self, layer: Layer, real: Tensor | None) -> Tensor:
        """The numbers of one layer, [texts, 4 + 1]."""
        masks = [None] * len(layer.x) if real is None else real.unbind()
        found = [leading_of(*self.row(layer, text), mask) for text, mask in enumerate(masks)]
        return torch.stack([summary(one, layer.x.shape[-1]) for one in found])

    def row(self, layer: Layer, text: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
        """The layer as a map of one text's states [1, T, width], and these states."""
        block, context = block_of(layer), rows_of(layer.context, len(layer.x), [text])
        return lambda x: block(x, context), layer.x[text : text + 1]


def leading_of(block: Callable[[Tensor], Tensor], x: Tensor, real: Tensor | None = None, count: int = COUNT) -> Leading:
    """The leading singular values and vectors of the Jacobian of a block at x [1, T, width]. Tokens that are not `real`
    [T] neither move nor count."""
    kept = torch.ones_like(x) if real is None else real[None, :, None].to(x).expand_as(x)

    def forward(columns: Tensor) -> Tensor:
        return vmap(lambda v: push(v.view_as(x) * kept), in_dims=1, out_dims=1)(columns)

    def backward(columns: Tensor) -> Tensor:
        return vmap(lambda u: pull(u.view_as(x) * kept), in_dims=1, out_dims=1)(columns)

    def push(v: Tensor) -> Tensor:
        return (jvp(block, (x,), (v,))[1] * kept).flatten()

    def pull(u: Tensor) -> Tensor:
        return (pulled(u)[0] * kept).flatten()

    with differentiable(x):
        _, pulled = vjp(block, x)  # pyright: ignore[reportAssignmentType]
        return leading_singular(forward, backward, x.numel(), count, EXTRA, ROUNDS, x)


def summary(found: Leading, width: int) -> Tensor:
    """The singular values, and the participation ratio of the tokens in the first right vector."""
    tokens = found.v[:, 0].view(-1, width).square().sum(-1)
    return torch.cat((found.s, 1 / tokens.square().sum()[None]))
