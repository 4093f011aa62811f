"""What the model would say if it ended earlier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..models.body import Body
from .probe import Figures, LayerStates, Pass, over_texts, texts_of

TEXTS = 8
SAME = 1e-2  # how far the logits may be from the model's own, relative to the largest, as under autocast


@final
class LogitLens(LayerStates):
    """The unembedding applied to the states x_l, l = 0 .. L: logits_l = head(norm(x_l)), p_l = softmax(logits_l).

    "agreement": the share of tokens whose most probable token is that of p_L; "divergence": KL(p_L | p_l) in nats;
    "entropy" of p_l in nats. Means over the tokens of a text, then over the first 8 texts, with their spread. There are
    figures only if the model has an unembedding, and if that of x_L gives the model's own logits.
    """

    def figures(self, passed: Pass) -> Figures:
        head = head_of(passed)
        if head is None:
            return {}
        with torch.no_grad():
            final_logs = head(passed.x.detach()[:TEXTS]).double().log_softmax(-1)
            rows = [compared(head(x[:TEXTS]), final_logs) for x in self.states(passed)]
        out: dict[str, tuple[float, ...]] = {}
        for i, name in enumerate(("agreement", "divergence", "entropy")):
            texts = [texts_of(row[..., i], passed.real, TEXTS) for row in rows]
            out |= over_texts(name, torch.stack([torch.stack([one.mean() for one in layer]) for layer in texts]))
        return out


def compared(logits: Tensor, final_logs: Tensor) -> Tensor:
    """Agreement, divergence and entropy of each token, [B, T, 3]."""
    logs, p = logits.double().log_softmax(-1), final_logs.exp()
    same = (logs.argmax(-1) == final_logs.argmax(-1)).double()
    return torch.stack((same, (p * (final_logs - logs)).sum(-1), -(logs.exp() * logs).sum(-1)), -1)


def head_of(passed: Pass) -> Callable[[Tensor], Tensor] | None:
    """What follows the stack, up to the logits; None if the model has nothing of the kind."""
    around = passed.model.get_submodule(passed.stack.rpartition(".")[0])
    if not (isinstance(passed.model, PreTrainedModel) and isinstance(around, Body)):
        return None
    unembedding: Any = passed.model.get_output_embeddings()
    logits, norm = passed.output.get("logits"), around.norm
    if unembedding is None or logits is None:
        return None
    with torch.no_grad():
        again = unembedding(norm(passed.x.detach()))
    if again.shape != logits.shape or not (again - logits).abs().max() <= SAME * logits.abs().max():
        return None
    return lambda x: unembedding(norm(x))
