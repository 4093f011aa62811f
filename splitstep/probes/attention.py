"""Whom each token looks at, and where what it knows comes from, through all layers."""

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from ..fields.attention import Attends
from ..integrate import Event
from ..letters import letter_of
from .probe import Figures, Pass, Probe, mean_over, numbers, over_texts, rows_of, texts_of

EXAMPLES, KEPT, TOKENS = 16, 8, 64  # whose entropy is measured; whose weights are kept, and of how many tokens
ROOM = 2**22  # pairs of tokens that are looked at together: fewer examples if they are long


class HeadEntropy(NamedTuple):
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

    "first token", by layer: the weight on the first real token, in the mean over heads, later queries and these texts,
    of self-attention; "uniform": what it would be if each query looked at all tokens that the layer shows it alike.
    """

    def __init__(self) -> None:
        self.seen: dict[str, dict[int, list[HeadEntropy]]] = {}

    def __call__(self, event: Event) -> None:
        for name, weights in seen_weights(event):
            self.seen.setdefault(name, {}).setdefault(event.site.step, []).append(summary(weights))

    def figures(self, passed: Pass) -> Figures:
        out = dict[str, Any]()
        for name, steps in self.seen.items():
            many = passed.stack.substeps
            if len(steps) < len(passed.stack.layers) * many:
                continue  # some layers have no attention
            layers = [[one for step in range(i, i + many) for one in steps[step]] for i in range(0, len(steps), many)]
            out |= entropies(name, layers, passed.real)
            kept = torch.stack([layer[0].weights for layer in layers])
            out[f"{name} weights"] = kept.half()
            out[f"{name} queries"] = (real := real_queries(passed.real, kept))
            if "first token" not in out and letter_of(name).cache != "cross":
                out |= on_the_first(kept, real)
        return out


def seen_weights(event: Event) -> Iterator[tuple[str, Tensor]]:
    """The attention weights [n, heads, T, S] of the first examples in the fields of a part that have attention."""
    batch, length = event.read.shape[:2]
    count = min(batch, EXAMPLES, max(1, ROOM // length**2))
    for name, field in event.fields.items():
        if isinstance(field, Attends):
            with torch.no_grad():
                context = rows_of(event.context, batch, range(count))
                weights = field.weights(event.times[name], event.read[:count], context)
            if weights is not None:
                yield name, weights


def summary(weights: Tensor) -> HeadEntropy:
    """The entropy of attention weights, and some of the weights."""
    wide = weights.float()
    few = wide[:KEPT, :, :TOKENS, :TOKENS]
    return HeadEntropy(torch.special.entr(wide).sum(-1), few / few.sum(-1, keepdim=True).clamp(min=1e-12))


def entropies(name: str, layers: list[list[HeadEntropy]], real: Tensor | None) -> dict[str, tuple[float, ...]]:
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


def on_the_first(weights: Tensor, real: Tensor) -> dict[str, tuple[float, ...]]:
    """The weight on the first real token, of weights [L, n, heads, T, S], beside that of uniform attention."""
    by_query = weights.double().mean(2)
    first = first_real(real, by_query[0])
    found = torch.stack([picked(one, first) for one in by_query])
    later = real.clone()
    later[range(len(real)), first] = False
    order = real.cumsum(-1)  # 1, 2, .. of the tokens of each text
    ahead = (by_query.triu(1) * real[..., None]).flatten(1).any(-1)[:, None, None]  # it looks at later tokens, too
    uniform = torch.where(ahead, order[:, -1:], order).double().reciprocal()
    return {"first token": mean_later(found, later), "uniform": mean_later(uniform, later)}


def mean_later(values: Tensor, later: Tensor) -> tuple[float, ...]:
    """The mean of numbers [L, n, T] over some queries of each text, then over the texts that have any."""
    return numbers((torch.where(later, values, 0).sum(-1) / later.sum(-1)).nanmean(-1))


@final
class AttentionRollout(Probe):
    """Attention rollout R_l = (W_l + I) / 2 R_{l-1}, R_0 = I, with W_l the mean over heads of a layer's self-attention
    (Abnar and Zuidema, 2020). If a layer has several parts with attention, each is a factor.

    By layer: "entropy" -sum_j R_ij log R_ij in nats, and "first", R_i1 of the first real token: the share of an
    attention sink. Means over the queries i of a text that are not padding, then over the first 16 texts (fewer if they
    are long), with their spread. Tensor "weights": R_L of the first 8 texts [8, 64, 64], float16, the first 64
    queries and keys; "queries" says which of them are not padding;
    rows of padding are 0.
    """

    def __init__(self) -> None:
        self.product: Tensor | None = None
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def __call__(self, event: Event) -> None:
        for name, weights in seen_weights(event):
            if letter_of(name).cache != "cross":  # that looks at another stack
                w = weights.double().mean(1)
                factor = (w + torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)) / 2
                self.product = factor if self.product is None else factor @ self.product
                self.layers[event.site.step] = torch.special.entr(self.product).sum(-1), self.product

    def figures(self, passed: Pass) -> Figures:
        if self.product is None or len(self.layers) < len(passed.stack.layers) * passed.stack.substeps:
            return {}  # some layers have no attention
        every = list(self.layers.values())[passed.stack.substeps - 1 :: passed.stack.substeps]
        real, count = passed.real, len(self.product)
        first = first_real(real, self.product)
        kept, series = self.product[:KEPT, :TOKENS, :TOKENS], dict[str, Any]()
        for name, rows in (("entropy", [one for one, _ in every]), ("first", [picked(one, first) for _, one in every])):
            means = [torch.stack([t.mean() for t in texts_of(row, real, count)]) for row in rows]
            series |= over_texts(name, torch.stack(means))
        queries = real_queries(real, kept[None, :, None])
        return series | {"weights": torch.where(queries[..., None], kept, 0).half(), "queries": queries}


def first_real(real: Tensor | None, product: Tensor) -> Tensor:
    """The place of each text's first token that is not padding."""
    if real is None:
        return torch.zeros(len(product), dtype=torch.long, device=product.device)
    return real[: len(product)].int().argmax(-1)


def picked(product: Tensor, keys: Tensor) -> Tensor:
    """R_ij [B, T] of one key j for each text."""
    return product.gather(2, keys[:, None, None].expand(-1, product.shape[1], 1))[..., 0]
