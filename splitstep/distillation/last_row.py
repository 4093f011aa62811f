"""The attention weights of each text's last real token, from one call of fused attention.

Fused attention does not tell its weights, and written out it keeps a matrix [B, heads, T, T] in every layer. A single
row of one layer is enough for SRA, and follows from that layer's queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..flows.record import Functions, LastCall
from .geometry import full_precision, last_real
from .records import wide


class Call(NamedTuple):
    """The arguments of `scaled_dot_product_attention`, under their names there."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @torch.no_grad()
    def last_rows(self, real: Tensor) -> Tensor:
        """softmax(q k^T scale + mask) for the last real token of each text, without dropout, [B, heads, T]."""
        last = last_real(real)
        query, key = wide(of_texts(self.query, last)), wide(self.key)
        grouped = query.unflatten(1, (key.shape[1], -1))  # several heads may share a key
        with full_precision(query):
            scores = (grouped @ key.mT).flatten(1, 2) * (query.shape[-1] ** -0.5 if self.scale is None else self.scale)
        if self.is_causal:
            later = torch.arange(key.shape[2], device=last.device) > last[:, None, None]
            scores = scores.masked_fill(later, -inf)
        if self.attn_mask is not None:
            whole = self.attn_mask.expand(len(last), -1, *self.query.shape[2:3], key.shape[2])
            row = of_texts(whole, last)
            scores = scores.masked_fill(~row, -inf) if row.dtype == torch.bool else scores + row
        return scores.softmax(-1)


def of_texts(x: Tensor, positions: Tensor) -> Tensor:
    """x [B, heads, T, ...] at one position of each text, [B, heads, ...]."""
    return x[torch.arange(len(positions), device=x.device), :, positions]


@contextmanager
def watching_attention(modules: Iterable[nn.Module]) -> Iterator[LastCall[Call]]:
    """Fused attention inside of these modules, in passes inside of this context. Others do not pay for it."""
    seen = LastCall(functional.scaled_dot_product_attention, Call)
    mode = Functions(seen)

    def begin(module: nn.Module, args: Any) -> None:
        mode.__enter__()

    def end(module: nn.Module, args: Any, result: Any) -> None:
        mode.__exit__(None, None, None)

    with ExitStack() as held:
        for module in modules:
            held.enter_context(module.register_forward_pre_hook(begin))
            held.enter_context(module.register_forward_hook(end, always_call=True))
        yield seen
