"""Two models of one shape beside each other, layer by layer, on the same batch of texts; all figures are text by text.

What compares a model with itself is exactly 0, except CKA, which is 1.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ...flows.flow import OwnFlow, one_state
from ...probes.probe import lengths, numbers
from ...probes.similarity import linear_cka
from ...probes.watching import is_vocabulary
from .cuts import Passed, changes_at, states_from
from .measures import real_of, states_of_texts, uniform_guess
from .own_probes import directions

OTHER_TOKENS = "the tokenizers make other tokens of these texts: nothing applies that is by token"
LAYERWISE = "increments, CKA and layers of one inside the other do not apply"
NO_KL = "KL of predictions does not apply"
FEWEST = 4  # tokens of which CKA says something


def layers_apart(one: Passed, other: Passed) -> str:
    """Why two models cannot be compared layer by layer; empty if they can."""
    shapes = [f"{x.layers} layers of width {one_state(x.starts[0]).shape[-1]}" for x in (one, other)]
    if shapes[0] != shapes[1]:
        return f"the models have {shapes[0]} and {shapes[1]}: {LAYERWISE}"
    if one.flow.scheme.doubled != other.flow.scheme.doubled:
        return f"only one of {one.flow.scheme} and {other.flow.scheme} has states of two halves: {LAYERWISE}"
    return tokens_apart(one, other)


def tokens_apart(one: Passed, other: Passed) -> str:
    """Why nothing can be compared token by token; empty if both models are given the same."""
    names = {x.flow.model.main_input_name for x in (one, other)} | {"decoder_input_ids"}
    pairs = [(one.inputs.get(str(name)), other.inputs.get(str(name))) for name in names]
    alike = all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs)
    return "" if alike else OTHER_TOKENS


def layers_beside(one: Passed, other: Passed) -> list[dict[str, tuple[float, ...]]]:
    """Of each text, in the mean over its tokens, how far each layer's increments dx of both models are apart in
    direction, 1 - cos, and relative to those of the first, |dx' - dx| / |dx|; and the debiased CKA of the states."""
    pairs = zip(*([x.double() for x in states_of_texts(both)] for both in (one, other)), strict=True)
    return [
        {
            "cosine distance": numbers([turn(*dx).mean() for dx in steps(x, y)]),
            "relative distance": numbers([apart(*dx).mean() for dx in steps(x, y)]),
            "cka": numbers(linear_cka(x, y, debiased=True)) if x.shape[1] >= FEWEST else (math.nan,) * len(x),
        }
        for x, y in pairs
    ]


def steps(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The increments [tokens, width] of each layer in both models."""
    yield from zip((b - a for a, b in pairwise(x)), (b - a for a, b in pairwise(y)), strict=True)


def turn(dx: Tensor, dy: Tensor) -> Tensor:
    """1 - cos of each token: |u - v|^2 / 2 of the directions, which rounds to 0 for equal ones; 1 if only one of them
    is zero."""
    u, v = directions(dx), directions(dy)
    one_rests = (lengths(dx) == 0) != (lengths(dy) == 0)
    return torch.where(one_rests, 1.0, (u - v).square().sum(-1) / 2)


def apart(dx: Tensor, dy: Tensor) -> Tensor:
    """|dy - dx| / |dx| of each token: 0 if they are equal, infinite if only dx is zero."""
    far = lengths(dy - dx)
    return torch.where(far == 0, 0.0, far / lengths(dx))


@torch.no_grad()
def predictions(passed: Passed) -> Tensor | None:
    """The logits [B, T, words] or [B, classes] of a model that chooses among several; None for another."""
    flow, given = passed.flow, {name: x for name, x in passed.inputs.items() if name != "labels"}
    context = flow.context(given) if isinstance(flow, OwnFlow) else passed.context
    output = flow.head(passed.starts[-1], context)
    words = is_vocabulary(flow.model, output, one_state(passed.starts[-1]))
    return output if words or uniform_guess(passed) is not None else None


def divergence(one: Passed, other: Passed) -> tuple[list[float], str]:
    """KL(p | q) of each text in nats, in the mean over its tokens: p is what the first model predicts, q the other. Or
    why there is none."""
    if why := tokens_apart(one, other):
        return [], why
    p, q, real = predictions(one), predictions(other), real_of(one)
    if p is None or q is None:
        return [], f"one of the models predicts neither words nor classes: {NO_KL}"
    if p.shape != q.shape:
        return [], f"the models choose among {p.shape[-1]:,} and among {q.shape[-1]:,}: {NO_KL}"
    rows = zip(p, q, [None] * len(p) if real is None or p.ndim < 3 else real, strict=True)
    found = ((kl_of_logits(a, b), mask) for a, b, mask in rows)  # one at a time: logits are large
    return [float((one if mask is None else one[mask]).mean()) for one, mask in found], ""


def kl_of_logits(p: Tensor, q: Tensor) -> Tensor:
    """sum_j p_j (log p_j - log q_j) in nats over the last axis; words that p rules out count nothing."""
    a, b = (x.double().log_softmax(-1) for x in (p, q))
    return torch.where(a.isinf(), 0, a.exp() * (a - b)).sum(-1)


@torch.no_grad()
def swapped(one: Passed, other: Passed, layer: int) -> list[float]:
    """What it changes, text by text, if a layer of the first model is that of the other. Beside the state the layer
    reads what it reads at home: masks and positions, and of an encoder-decoder the other encoder's states."""
    later = range(layer + 1, other.layers)
    x = states_from(other.flow, layer, one.starts[layer], other.context, later)[0]
    return changes_at(one, [x, *states_from(one.flow, layer + 1, x, one.context, ())][-1])
