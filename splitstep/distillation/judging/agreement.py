"""How much a student agrees with its teacher on held-out answers: equal likeliest tokens, and mean KL divergence."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..records import wide
from ..vocabulary import shared_vocabulary
from .together import Both, at, batches_of_both, same_tokens
from .tokens import reading


class Agreement(NamedTuple):
    """The share of places where both find the same token likeliest, and the mean of KL(teacher | student) in nats.

    If the tokenizers differ, both models are asked for one of the tokens that they share (`share` of the teacher's
    vocabulary), where both have read the same bytes.
    """

    top1: float
    kl: float
    places: int
    share: float


def agreement(both: Both, batch: int | None = None) -> Agreement:
    """The agreement over all places of the rows' answers."""
    teacher, student, _ = both
    same = same_tokens(teacher.tokenizer, student.tokenizer)
    shared = None if same else shared_vocabulary(teacher.tokenizer, student.tokenizer)
    equal, divergence, places = 0, 0.0, 0
    with reading(teacher.model, student.model):
        for ours, here, theirs, there in batches_of_both(both, batch):
            ids = None if shared is None else shared.ids
            p = logs(at(ours.logits, here), None if ids is None else ids[:, 0], theirs.logits.shape[-1])
            q = logs(at(theirs.logits, there), None if ids is None else ids[:, 1], ours.logits.shape[-1]).to(p.device)
            equal += int((p.argmax(-1) == q.argmax(-1)).sum())
            divergence += float((p - q).mul_(p.exp()).sum(dtype=torch.float64))
            places += len(p)
            del ours, theirs, p, q  # before the next batch takes as much
    if not places:
        raise ValueError("the answers have no place where both models have read the same bytes: use longer answers")
    return Agreement(equal / places, divergence / places, places, 1.0 if shared is None else shared.teacher_share)


def logs(logits: Tensor, ids: Tensor | None, most: int) -> Tensor:
    """Log probabilities of the tokens `ids`, or of the tokens that both models have: some have rows that no token
    uses."""
    chosen = logits[:, :most] if ids is None else logits[:, ids.to(logits.device)]
    return wide(chosen).log_softmax(-1)
