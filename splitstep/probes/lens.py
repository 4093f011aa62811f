"""What the model would say if it ended earlier."""

from collections.abc import Sequence
from itertools import chain
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
            if head is None or not is_output(last := head(passed.x.detach()[:TEXTS]), passed):
                return {}
            final_logs, words = logs_of(last), next_tokens(passed)
            logs = chain((logs_of(head(x[:TEXTS])) for x in self.states(passed)[:-1]), [final_logs])
            rows = [torch.stack([*map(token_figures, one, final_logs, words)]) for one in logs]
        out: dict[str, tuple[float, ...]] = {}
        for i, name in enumerate(("agreement", "divergence", "entropy", "loss")[: rows[0].shape[-1]]):
            texts = [texts_of(row[..., i], passed.real, TEXTS) for row in rows]
            out |= over_texts(name, torch.stack([torch.stack([one.nanmean() for one in layer]) for layer in texts]))
        return out


def next_tokens(passed: Pass) -> Sequence[Tensor | None]:
    """The token after each token [T] of each text, -1 where there is none; None if the stack's states are not those of
    tokens that the model reads."""
    ids, model = passed.batch.get("input_ids"), cast(Any, passed.model)
    if ids is None or model.config.is_encoder_decoder or ids.shape != passed.x.shape[:2]:
        return [None] * len(passed.x[:TEXTS])
    words = ids if passed.real is None else ids.masked_fill(~passed.real, -1)
    return pad(words[:TEXTS, 1:], (0, 1), value=-1).to(passed.x.device).unbind()


def logs_of(logits: Tensor) -> Tensor:
    """log softmax, in float32 or better: a vocabulary is large."""
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def token_figures(logs: Tensor, final_logs: Tensor, words: Tensor | None) -> Tensor:
    """Agreement, divergence and entropy of each token of a text, since all texts take much memory, and, of words that
    follow, the loss, [T, 3 or 4]; that of the last token is not a number."""
    divergence = (final_logs.exp() * (final_logs - logs)).sum(-1)
    found = [logs.argmax(-1) == final_logs.argmax(-1), divergence, -(logs.exp() * logs).sum(-1)]
    if words is not None:
        found.append((-logs.gather(-1, words.clamp(min=0)[:, None])[:, 0]).masked_fill(words < 0, torch.nan))
    return torch.stack([one.double() for one in found], -1)


def is_output(again: Tensor, passed: Pass) -> bool:
    """Whether what the head makes of the last state are the model's own logits."""
    logits = passed.output if isinstance(passed.output, Tensor) else passed.output.get("logits")
    own = None if logits is None else logits[:TEXTS]
    if own is None or again.shape != own.shape:
        return False
    return bool((again - own).abs().max() <= SAME * own.abs().max())
