"""Whether a causal model sees what it must not: later tokens, or other examples of its batch.

Both are changed, in float64 and in both modes, because a batch norm mixes examples in training only. All passes draw
the same dropout. The weights of a copy are moved first, so that what starts at zero is not overlooked.
"""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor

EXAMPLES, LONGEST = 3, 256  # of the texts on which a model is tried
MOVED, LEAST = 0.3, 0.02  # what is added to weights, as a share of their standard deviation; and at least
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of a change, as a share of the largest logit


class Leak(NamedTuple):
    """What a model sees, in which mode, and how much of the largest logit that changes."""

    what: str
    training: bool
    figure: float


def check_leaks(model: Any, name: str, length: int) -> None:
    """Refuse a model that sees later tokens or other examples."""
    found = leak_of(model, length)
    if found is not None:
        mode = "training" if found.training else "evaluation"
        raise ValueError(
            f"{name} sees {found.what}: changing these changes logits by {found.figure:.2g} of the largest in {mode} "
            "mode, and none may change: mask them, and normalise each token by itself"
        )


def leak_of(model: Any, length: int) -> Leak | None:
    """The largest leak of a model on texts of this length; None if it has none."""
    try:
        found = leaks(deepcopy(model).double(), min(length, LONGEST))
    except RuntimeError:  # a layer that makes tensors of float32 itself
        found = leaks(deepcopy(model).float(), min(length, LONGEST))
    return max(found, key=lambda one: one.figure, default=None)


@torch.no_grad()
def leaks(model: Any, length: int) -> list[Leak]:
    """All leaks of this model, whose weights may be moved."""
    weight = next(model.parameters())
    random = torch.Generator().manual_seed(0)
    for p in model.parameters():
        size = max(MOVED * float(p.std(correction=0)), LEAST)
        p += size * torch.randn(p.shape, generator=random, dtype=p.dtype).to(p.device)
    tokens = torch.randint(model.config.vocab_size, (2, EXAMPLES, length), generator=random)
    first, second = tokens[0], (tokens[0] + 1 + tokens[1] % (model.config.vocab_size - 1)) % model.config.vocab_size
    found = list[Leak]()
    for training in (False, True):
        model.train(training)
        base = logits_of(model, first)
        for cut in {length // 3, length - 1} - {0}:
            later = torch.cat((first[:, :cut], second[:, cut:]), 1)
            change = base[:, :cut] - logits_of(model, later)[:, :cut]
            found.append(Leak("later tokens", training, share(change, base)))
        others = torch.cat((first[:1], second[1:]))
        change = base[:1] - logits_of(model, others)[:1]
        found.append(Leak("other examples of its batch", training, share(change, base)))
    return [one for one in found if not one.figure <= TOLERANCE[weight.dtype]]


def logits_of(model: Any, ids: Tensor) -> Tensor:
    """The logits of texts, with the same dropout in every pass."""
    weight = next(model.parameters())
    with torch.random.fork_rng([weight.device] if weight.is_cuda else []):
        torch.manual_seed(0)
        return model(input_ids=ids.to(weight.device), use_cache=False).logits


def share(change: Tensor, base: Tensor) -> float:
    """The largest change as a share of the largest logit."""
    return float(change.abs().max() / base.abs().max())
