"""What the model would say if it ended earlier."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

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
        head = passed.head
        with torch.no_grad():
            if head is None or not leads_to_output(head, passed):
                return {}
            final_logs = logs_of(head(passed.x.detach()[:TEXTS]))
            rows = [compared(logs_of(head(x[:TEXTS])), final_logs) for x in self.states(passed)]
        out: dict[str, tuple[float, ...]] = {}
        for i, name in enumerate(("agreement", "divergence", "entropy")):
            texts = [texts_of(row[..., i], passed.real, TEXTS) for row in rows]
            out |= over_texts(name, torch.stack([torch.stack([one.mean() for one in layer]) for layer in texts]))
        return out


def logs_of(logits: Tensor) -> Tensor:
    """log softmax, in float32 or better: a vocabulary is large."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def compared(logs: Tensor, final_logs: Tensor) -> Tensor:
    """Agreement, divergence and entropy of each token, [B, T, 3]."""
    texts = [token_figures(*pair) for pair in zip(logs, final_logs, strict=True)]  # one by one: they take much memory
    return torch.stack(texts)


def token_figures(logs: Tensor, final_logs: Tensor) -> Tensor:
    same = logs.argmax(-1) == final_logs.argmax(-1)
    divergence = (final_logs.exp() * (final_logs - logs)).sum(-1)
    return torch.stack((same.double(), divergence.double(), -(logs.exp() * logs).sum(-1).double()), -1)


def leads_to_output(head: Callable[[Tensor], Tensor], passed: Pass) -> bool:
    """Whether the head of the last state gives the model's own logits."""
    logits = passed.output if isinstance(passed.output, Tensor) else passed.output.get("logits")
    if logits is None:
        return False
    again, own = head(passed.x.detach()[:TEXTS]), logits[:TEXTS]
    return again.shape == own.shape and bool((again - own).abs().max() <= SAME * own.abs().max())
