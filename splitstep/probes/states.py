"""The states themselves, for comparisons of two networks."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from .probe import Figures, LayerStates, Pass

TOKENS, SEED = 256, 15


@final
class States(LayerStates):
    """The states at the start of each layer and at the end, as tensors.

    "pooled" [L + 1, B, width]: the mean over the tokens of each example; "tokens" [L + 1, at most 256, width]: a fixed
    choice of tokens, none of them padding. Both are float16, or float32 if a number is too large for that. The choice
    depends on the shape of the batch and on its padding only, so networks that saw the same batch can be compared.
    """

    def figures(self, passed: Pass) -> Figures:
        states = torch.stack(self.states(passed)).float()
        chosen = chosen_tokens(passed.real, states[0])
        return {"pooled": narrow(pooled(states, passed.real)), "tokens": narrow(states.flatten(1, 2)[:, chosen])}


def pooled(x: Tensor, real: Tensor | None) -> Tensor:
    """The mean over the tokens [.., B, T, width] of each example that are not padding."""
    if real is None:
        return x.mean(-2)
    weight = real[..., None]
    return torch.where(weight, x, 0).sum(-2) / weight.sum(-2).clamp(min=1)


def chosen_tokens(real: Tensor | None, x: Tensor, most: int = TOKENS) -> Tensor:
    """The numbers of at most `most` real tokens of a batch [B, T, width], drawn once for all and in order."""
    count = x.shape[0] * x.shape[1]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SEED)).to(x.device)
    if real is not None:
        order = order[real.flatten()[order]]
    return order[:most].sort().values


def narrow(x: Tensor) -> Tensor:
    """The tensor in float16 if all its numbers fit."""
    half = x.half()
    return half if bool(half.isfinite().all()) else x
