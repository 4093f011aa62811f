"""What the model would say if it ended earlier."""

from collections.abc import Callable
from typing import Any, cast, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from .probe import Figures, LayerStates, Pass, over_texts, texts_of

TEXTS = 8
SAME = 1e-2  # how far the logits may be from the model's own, relative to the largest, as under autocast


@final
class LogitLens(LayerStates):
    """The unembedding applied to the states x_l, l = 0 .. L: logits_l = head(norm(x_l)), p_l = softmax(logits_l).

    "agreement": the share of tokens whose most probable token is that of p_L; "divergence": KL(p_L | p_l) in nats;
    "entropy" of p_l in nats; "loss" -log p_l(next token), if the model reads tokens: it means something if the model
    predicts the next one. Means over the tokens of a text, then over the first 8 texts, with their spread. There are
    figures only if the model has an unembedding, and if that of x_L gives the model's own logits.
    """

    def figures(self, passed: Pass) -> Figures:
        head = passed.head
        with torch.no_grad():
            if head is None or not leads_to_output(head, passed):
                return {}
            final_logs = logs_of(head(passed.x.detach()[:TEXTS]))
            words = next_tokens(passed)
            rows = [compared(logs_of(head(x[:TEXTS])), final_logs, words) for x in self.states(passed)]
        out: dict[str, tuple[float, ...]] = {}
        for i, name in enumerate(("agreement", "divergence", "entropy", "loss")[: rows[0].shape[-1]]):
            texts = [texts_of(row[..., i], passed.real, TEXTS) for row in rows]
            out |= over_texts(name, torch.stack([torch.stack([one.nanmean() for one in layer]) for layer in texts]))
        return out


def next_tokens(passed: Pass) -> Tensor | None:
    """The token after each token [n, T], -1 where there is none; None if the stack's states are not those of tokens
    that the model reads."""
    ids, model = passed.batch.get("input_ids"), cast(Any, passed.model)
    if ids is None or model.config.is_encoder_decoder or ids.shape != passed.x.shape[:2]:
        return None
    words = ids if passed.real is None else ids.masked_fill(~passed.real, -1)
    return pad(words[:TEXTS, 1:], (0, 1), value=-1).to(passed.x.device)


def logs_of(logits: Tensor) -> Tensor:
    """log softmax, in float32 or better: a vocabulary is large."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def compared(logs: Tensor, final_logs: Tensor, words: Tensor | None) -> Tensor:
    """Agreement, divergence and entropy of each token and, of words that follow, the loss, [B, T, 3 or 4]."""
    texts = [token_figures(*pair) for pair in zip(logs, final_logs, strict=True)]  # one by one: they take much memory
    return torch.stack(texts if words is None else [*map(with_loss, texts, logs, words)])


def with_loss(figures: Tensor, logs: Tensor, words: Tensor) -> Tensor:
    """Figures of the tokens of a text and -log p(next token), not a number for the last one."""
    loss = -logs.gather(-1, words.clamp(min=0)[:, None])
    return torch.cat((figures, loss.double().masked_fill(words[:, None] < 0, torch.nan)), -1)


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
