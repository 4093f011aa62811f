"""Where what a token knows comes from, through all layers."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from ..integrate import Event
from .attention import KEPT, TOKENS, real_queries, seen_weights
from .probe import Figures, Pass, Probe, over_texts, texts_of


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
            if name[0] != "C":  # it looks at another stack
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
        entropy = [[t.mean() for t in texts_of(one, real, count)] for one, _ in every]
        sink = [[t.mean() for t in texts_of(picked(one, first), real, count)] for _, one in every]
        kept = self.product[:KEPT, :TOKENS, :TOKENS]
        series = over_texts("entropy", stacked(entropy)) | over_texts("first", stacked(sink))
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


def stacked(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row) for row in rows])
