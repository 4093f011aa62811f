"""Whom each token looks at."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from ..fields.attention import EMPTY, Attention, attention_weights
from ..fields.context import Context
from ..integrate import Event
from .probe import Figures, Pass, Probe, mean_over, numbers, rows_of, stack_of

EXAMPLES, KEPT, TOKENS = 16, 8, 64  # whose entropy is measured; whose weights are kept, and of how many tokens
ROOM = 2**26  # weights that are computed at a time: fewer examples if they are long


class Seen(NamedTuple):
    """The entropy [n, heads, T] of one evaluation, and the weights [at most 8, heads, at most 64, at most 64]."""

    entropy: Tensor
    weights: Tensor


@final
class AttentionWeights(Probe):
    """The entropy of attention, -sum_j w_ij log w_ij in nats, in the mean over the queries i that are not padding.

    A series for each field with attention, "A" or "C", has a number for each layer, and so has one for each of its
    heads, such as "A head 0". They are measured on the first 16 examples (fewer if they are long), in the first stage
    of every part; if a layer has several parts with the field, it is their mean. The tensor "A weights", float16,
    [layers, 8, heads, 64, 64], holds the weights of the first 8 examples in each layer's first part: the first 64
    queries and keys, each query's weights divided by their sum over these keys. "A queries" [8, 64] says which queries
    are not padding.
    """

    def __init__(self) -> None:
        self.seen: dict[str, dict[int, list[Seen]]] = {}

    def __call__(self, event: Event) -> None:
        for name, field in event.fields.items():
            if isinstance(field, Attention):
                given = event.context if isinstance(event.context, Context) else EMPTY
                x, context = first_examples(event.read, given, field)
                with torch.no_grad():
                    weights = attention_weights(field, event.times[name], x, context)
                    self.seen.setdefault(name, {}).setdefault(event.site.step, []).append(summary(weights))

    def figures(self, passed: Pass) -> Figures:
        substeps, out = stack_of(passed).substeps, dict[str, Any]()
        for name, steps in self.seen.items():
            layers = [
                [one for step in range(first, first + substeps) for one in steps[step]]
                for first in range(0, len(steps), substeps)
            ]
            out |= entropies(name, layers, passed.real)
            kept = torch.stack([layer[0].weights for layer in layers])
            out[f"{name} weights"] = kept.half()
            out[f"{name} queries"] = real_queries(passed.real, kept)
        return out


def first_examples(x: Tensor, context: Context, field: Attention) -> tuple[Tensor, Context]:
    """As many of the first examples as there is room for, with their context."""
    batch, length = x.shape[:2]
    keys = length if context.memory is None or field.looks_at == "own" else context.memory.shape[1]
    heads = field.out.in_features // field.size
    count = max(1, min(EXAMPLES, ROOM // (heads * length * keys)))
    return x[:count], rows_of(context, batch, slice(count))


def summary(weights: Tensor) -> Seen:
    """The entropy of attention weights, and some of the weights."""
    wide = weights.float()
    few = wide[:KEPT, :, :TOKENS, :TOKENS]
    return Seen(torch.special.entr(wide).sum(-1), few / few.sum(-1, keepdim=True).clamp(min=1e-12))


def entropies(name: str, layers: list[list[Seen]], real: Tensor | None) -> dict[str, tuple[float, ...]]:
    """The mean entropy by layer, and by layer for each head."""
    every = torch.stack([torch.stack([one.entropy for one in layer]).mean(0) for layer in layers])  # [L, n, heads, T]
    found = mean_over(every.transpose(1, 2), None if real is None else real[: every.shape[1]])
    heads = [numbers(column) for column in found.unbind(1)]
    return {name: numbers(found.mean(1)), **{f"{name} head {i}": head for i, head in enumerate(heads)}}


def real_queries(real: Tensor | None, weights: Tensor) -> Tensor:
    """Which queries of the kept weights [L, n, heads, T, S] are not padding."""
    _, count, _, length, _ = weights.shape
    if real is None:
        return torch.ones(count, length, dtype=torch.bool, device=weights.device)
    return real[:count, :length].contiguous()
