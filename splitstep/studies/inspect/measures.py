"""What sentences about a model need beside probes and cuts: figures text by text, of batches that have passed it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...flows.flow import one_state
from ...integrate import State
from ...kernels.loss import IGNORED
from ...models import CausalConfig
from ...probes.watching import real_tokens
from .cuts import Passed, changes_at, states_from
from .own_probes import mean_shares, rounded
from .result import Coordinate, Figures, Health, Held

OUTLIER = 0.1  # share of the squared norm in one coordinate: in a width of 100 or more, ten times an equal share
MOST = 6  # coordinates that are held: each takes two passes


def health(passed: Passed, spelt: Sequence[int | None] = ()) -> Health:
    """The health of a model as one batch shows it; `spelt`: how many bytes the predicted tokens of each text spell."""
    broken = tuple(f"state {i}" for i, x in enumerate(passed.starts) if not bool(one_state(x).isfinite().all()))
    idle = tuple(layer for layer in range(passed.layers) if same(*passed.starts[layer : layer + 2]))
    return Health(broken, idle, uniform_guess(passed), bits_per_byte(passed, spelt))


def same(one: State, other: State) -> bool:
    """Whether two states are equal, number by number."""
    pairs = zip(one, other, strict=True) if isinstance(one, tuple) else ((one, other),)
    return all(torch.equal(a, b) for a, b in pairs)


def whole_health(model: nn.Module, batches: Sequence[Health]) -> Health:
    """The health of a model from that of its batches: a layer is idle if it is so in all of them."""
    tensors = [name for name, x in model.state_dict().items() if x.is_floating_point() and not bool(x.isfinite().all())]
    states = dict.fromkeys(name for one in batches for name in one.not_finite)
    idle = set[int].intersection(*(set(one.idle) for one in batches)) if batches else set[int]()
    guess = next((one.guess for one in batches), None)
    bits = tuple(x for one in batches for x in one.bits)
    return Health((*tensors, *states), tuple(sorted(idle)), guess, bits)


def uniform_guess(passed: Passed) -> float | None:
    """The loss of a model that gives every word, or every class, the same probability; None if its loss is not of one
    choice among several."""
    model: Any = passed.flow.model
    if passed.judge.by == "next token":
        return math.log(model.config.get_text_config().vocab_size)
    labels = passed.inputs.get("labels")
    if passed.judge.by == "output" or labels is None or labels.is_floating_point():
        return None
    head = model.get_output_embeddings()
    kinds = model.config.num_labels if head is None else len(head.weight)
    return math.log(kinds) if kinds > 1 else None


def bits_per_byte(passed: Passed, spelt: Sequence[int | None]) -> Figures:
    """The loss of all predictions of a text over the bytes that they spell, in bits; empty if the end of a text is not
    what is predicted."""
    many = predictions(passed)
    if passed.losses is None or many is None or len(spelt) != len(many) or not all(spelt):
        return ()
    rows = zip(passed.losses, many, spelt, strict=True)
    return tuple(loss * count / (math.log(2) * (size or 1)) for loss, count, size in rows)


def predictions(passed: Passed) -> list[int] | None:
    """How many tokens at the end of each text are predicted: all but the first, or those with labels."""
    model, labels = passed.flow.model, passed.inputs.get("labels")
    if passed.judge.by == "output" or (passed.judge.by == "labels" and not isinstance(model.config, CausalConfig)):
        return None
    ids = passed.inputs["input_ids"]
    words = ids.masked_fill(passed.inputs.get("attention_mask", torch.ones_like(ids)) == 0, IGNORED)[:, 1:]
    wanted = words if labels is None else labels[:, 1:]
    counted = wanted != IGNORED
    begun = counted.cumsum(1) > 0
    return counted.sum(1).tolist() if torch.equal(wanted, torch.where(begun, words, IGNORED)) else None


def predicted_bytes(tokenizer: Any, ids: Sequence[int], labels: Sequence[int] | None = None) -> int | None:
    """How many bytes the tokens spell that are predicted: all but the first, or those from the first label on. A
    character that is cut off counts as the sign for one."""
    if tokenizer is None:
        return None
    known = [1] if labels is None else [i for i, label in enumerate(labels) if i and label != IGNORED]
    how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    whole, before = (tokenizer.decode(some, **how) for some in (ids, ids[: min(known, default=len(ids))]))
    return len(whole.encode()) - len(before.encode())


def states_of_texts(passed: Passed) -> list[Tensor]:
    """The states [L + 1, tokens, width] of each text, without padding."""
    states, real = torch.stack([one_state(x) for x in passed.starts]), real_of(passed)
    return [x if real is None else x[:, real[i]] for i, x in enumerate(states.unbind(1))]


def real_of(passed: Passed) -> Tensor | None:
    """Which tokens [B, T] are not padding."""
    return real_tokens(passed.inputs, one_state(passed.starts[0]), "decoder_input_ids" in passed.inputs)


def likely_coordinates(passed: Passed) -> int:
    """How many coordinates hold more than a tenth of the squared norm in some state of this batch."""
    shares = torch.stack([mean_shares(one_state(x).flatten(0, -2)) for x in passed.starts])
    return min(MOST, int((shares.amax(0) > OUTLIER).sum()))


def coordinates(shares: Tensor) -> tuple[Coordinate, ...]:
    """Those that hold more than a tenth of the squared norm in some state, in the mean over texts, the largest first;
    from the shares of all texts."""
    top, state = shares[:, 0].mean(0).max(0)  # by coordinate
    chosen = [j for j in top.argsort(descending=True).tolist()[:MOST] if top[j] > OUTLIER]
    return tuple(
        Coordinate(j, int(state[j]), *(tuple(map(rounded, row)) for row in shares[:, :, state[j], j].T.tolist()))
        for j in chosen
    )


@torch.no_grad()
def held(passed: Passed, chosen: Sequence[int], values: Tensor) -> list[float]:
    """What it costs to hold coordinates still, text by text, at values [texts, L + 1, coordinates] in every state."""
    values = values.to(one_state(passed.starts[0]))

    def still(x: State, state: int) -> State:
        if isinstance(x, tuple):
            return tuple(still(half, state) for half in x)
        return x.index_copy(-1, places.to(x.device), values[:, None, state].expand(*x.shape[:-1], -1))

    places = torch.tensor(list(chosen))
    states = states_from(passed.flow, 0, passed.starts[0], passed.context, (), lambda layer, x: still(x, layer))
    return changes_at(passed, still(states[-1], passed.layers))


def token_means(passed: Passed, chosen: Sequence[int]) -> Tensor:
    """The means of coordinates over the tokens of each text [texts, L + 1, coordinates]."""
    return torch.stack([x[..., list(chosen)].double().mean(1) for x in states_of_texts(passed)])


def held_costs(batches: Sequence[Passed], chosen: Sequence[int]) -> Iterator[Held]:
    """What holding each coordinate costs, at its mean over other texts, if there are any, and at zero."""
    for j in chosen:
        own = [token_means(one, (j,)) for one in batches]
        means = torch.cat(own)
        ways: tuple[tuple[Literal["mean", "zero"], Tensor], ...]
        others = (means.sum(0) - means) / (len(means) - 1)  # the mean over all other texts, for each text
        ways = ("mean", others), ("zero", torch.zeros_like(means))
        for at, values in ways:
            rows = values.split([*map(len, own)])
            costs = [x for one, some in zip(batches, rows, strict=True) for x in held(one, (j,), some)]
            if at == "zero" or len(means) > 1:
                yield Held((j,), at, tuple(costs))


@torch.no_grad()
def lens_losses(passed: Passed) -> list[Figures]:
    """The loss if the model ended after each state, a row a text; empty if it has no loss. Probes give the same of
    next tokens; this is that of tasks with labels."""
    ends = (passed.judge.output(passed.flow, x, passed.context, passed.inputs) for x in passed.starts)
    found = [passed.judge.losses(one, passed.inputs) for one in ends]
    known = [one for one in found if one is not None]
    return list(zip(*known, strict=True)) if len(known) == len(found) else []
