"""What another way to run a language model changes on each text: its loss per token, its predictions, its output."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ...experiments.statistics import estimate
from ...kernels.loss import IGNORED, decoder_inputs, shifted
from ...support.typed import Figure
from ...training.progress import Counting
from .problem import Problem
from .variations import Way

Predicts = Literal["next", "own", "nothing"]
"""What the output at a token is: the next token's logits, its own token's (a masked model), or no logits at all."""
SAME = 1e-4  # relative: two losses of one model


class Change(NamedTuple):
    """The mean change of the loss over texts in nats per token, each against the model's own loss on that text, and its
    95% interval, if there are enough texts for one and all losses are finite."""

    mean: Figure
    low: Figure | None
    high: Figure | None
    texts: int


class Changed(NamedTuple):
    """What a way changes. `output` is the change of the output on real tokens, relative, of logits without their mean;
    `kl` is from the model's own predictions, in nats; `shared` is the share of equal predictions. What the model does
    not have is None. `merged` layers are one step."""

    scheme: str
    substeps: int
    factor: float
    merged: int
    output: Figure
    kl: Figure | None
    shared: Figure | None
    loss: Change | None


class TextFigures(NamedTuple):
    """Sums over the scored tokens of one text."""

    tokens: int
    changed: float
    own: float
    kl: float | None
    equal: int | None
    loss: float | None  # per token


def inputs_of(model: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch of texts as a model takes it. A decoder that reads an encoder is asked to repeat the text."""
    given = {name: batch[name] for name in ("input_ids", "attention_mask")}
    if not model.config.is_encoder_decoder:
        return given
    padding = model.config.pad_token_id or 0
    start = getattr(model.config, "decoder_start_token_id", None)  # not every config has it
    moved = decoder_inputs(batch["labels"], padding if start is None else start, padding)
    return {**given, "decoder_input_ids": moved, "decoder_attention_mask": given["attention_mask"]}


@torch.no_grad()
def predicts(model: Any, batch: Mapping[str, Tensor]) -> Predicts:
    """Found by asking the model for its loss, and comparing it with what its logits give."""
    if "labels" not in inspect.signature(model.forward).parameters:
        return "nothing"
    try:
        output = model(**inputs_of(model, batch), labels=batch["labels"])
        loss, logits = float(output.loss), output.logits
    except (ValueError, RuntimeError, IndexError, TypeError, AttributeError):  # a classifier has other labels
        return "nothing"
    if logits.shape[:-1] != batch["labels"].shape:
        return "nothing"
    decoder = model.config.is_encoder_decoder
    if not decoder and math.isclose(mean_loss(logits, shifted(batch["labels"])), loss, rel_tol=SAME):
        return "next"
    if math.isclose(mean_loss(logits, batch["labels"]), loss, rel_tol=SAME):
        return "next" if decoder else "own"
    return "nothing"


def mean_loss(logits: Tensor, labels: Tensor) -> float:
    return float(functional.cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), ignore_index=IGNORED))


def aligned_labels(model: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """The label of each position of the output [B, T]: the next token, or what a decoder says there."""
    return batch["labels"] if model.config.is_encoder_decoder else shifted(batch["labels"])


def figures_of_texts(output: Tensor, own: Tensor, kind: Predicts, real: Tensor, labels: Tensor) -> list[TextFigures]:
    """One text after the other: the logits of all at once would take much memory."""
    scored = labels != IGNORED if kind == "next" else real
    return [
        figures_of_text(output[i], own[i], kind, scored[i] if output.ndim > 2 else None, labels[i])
        for i in range(len(output))
    ]


def figures_of_text(output: Tensor, own: Tensor, kind: Predicts, scored: Tensor | None, labels: Tensor) -> TextFigures:
    """`output` and `own` are [T, K], or [K] of a model with one output a text: then `scored` is None."""
    mine, theirs = (x[None] if scored is None else x[scored] for x in (output, own))
    if kind == "nothing":
        return TextFigures(len(mine), total((mine - theirs).square()), total(theirs.square()), None, None, None)
    changed, size = (total((x - x.mean(-1, keepdim=True)).square()) for x in (mine - theirs, theirs))
    p, q = theirs.log_softmax(-1), mine.log_softmax(-1)
    equal = int((mine.argmax(-1) == theirs.argmax(-1)).sum())
    loss = -total(q.gather(-1, labels[scored][:, None])) / len(q) if kind == "next" else None
    return TextFigures(len(mine), changed, size, total(p.exp() * (p - q)), equal, loss)


def total(x: Tensor) -> float:
    """The sum of [T, K]: over K in the precision of x, for a vocabulary is large, and over tokens in float64."""
    return float(x.sum(-1).double().sum())


def changed_by(way: Way, found: Sequence[TextFigures], own: Sequence[TextFigures]) -> Changed:
    """All texts together, and the interval of the change of the loss over texts."""
    tokens = sum(one.tokens for one in found)
    kl = [one.kl for one in found if one.kl is not None]
    equal = [one.equal for one in found if one.equal is not None]
    pairs = [
        (one.loss, before.loss)
        for one, before in zip(found, own, strict=True)
        if one.loss is not None and before.loss is not None
    ]
    return Changed(
        str(way.scheme), way.substeps, way.factor, way.merged,
        output=math.sqrt(math.fsum(one.changed for one in found) / math.fsum(one.own for one in found)),
        kl=math.fsum(kl) / tokens if kl else None, shared=sum(equal) / tokens if equal else None,
        loss=change_of([loss - before for loss, before in pairs]),
    )  # fmt: skip


def change_of(values: Sequence[float]) -> Change | None:
    if not values:
        return None
    if not all(map(math.isfinite, values)):
        return Change(math.inf, None, None, len(values))
    found = estimate(values)
    assert found is not None
    return Change(*found)


class Measured(NamedTuple):
    """What all ways change, the model's own loss (mean over texts), and the number of scored tokens."""

    changes: list[Changed]
    loss: float | None
    tokens: int


@torch.no_grad()
def run_on_texts(
    problems: Callable[[Mapping[str, Tensor]], Problem],
    batches: Sequence[Mapping[str, Tensor]],
    ways: Sequence[Way],
    kind: Predicts,
    labels: Callable[[Mapping[str, Tensor]], Tensor],
    progress: Counting | None = None,
) -> Measured:
    """Run a model on all texts in every way, the first of which is its own."""
    found: list[list[TextFigures]] = [[] for _ in ways]
    for number, batch in enumerate(batches):
        problem = problems(batch)
        own = problem.finish(problem.end())
        for k, way in enumerate(ways):
            output = problem.finish(way.end(problem))
            found[k] += figures_of_texts(output, own, kind, batch["attention_mask"].bool(), labels(batch))
            if progress is not None:
                progress(number * len(ways) + k + 1, len(batches) * len(ways))
    losses = [one.loss for one in found[0] if one.loss is not None]
    mean = math.fsum(losses) / len(losses) if losses else None
    changes = [changed_by(way, some, found[0]) for way, some in zip(ways, found, strict=True)]
    return Measured(changes, mean, sum(one.tokens for one in found[0]))
