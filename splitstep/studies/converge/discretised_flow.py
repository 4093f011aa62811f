"""Is a pretrained model a discretised flow? What other discretisations of its own fields change on each text."""

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ...experiments.result import Result
from ...experiments.statistics import estimate
from ...flows import Flow
from ...kernels.loss import IGNORED, decoder_inputs, shifted
from ...opening import Opened, load
from ...opening.texts import batches_of
from ...support.provenance import Provenance, made_by_study
from ...support.typed import Figure, Inlined
from ...training.progress import Counting
from .ways import LocalError, Problem, Undefined, Way, local_errors, no_equation, plan_of, problem_of_flow, run_ways

TOKENS = 64  # of each text
BATCH = 8  # texts at once
EXACT, MOST = 1e-3, 64  # of local errors: models are in float32 and may have hundreds of fields
PROBED_TOKENS = 32  # of the text of the local errors
SAME = 1e-4  # relative: two losses of one model

Predicts = Literal["next", "own", "nothing"]
"""What the output at a token is: the next token's logits, its own token's (a masked model), or no logits at all."""


class Change(NamedTuple):
    """The mean change of the loss over texts in nats per token, each against the model's own loss on that text, and its
    95% interval, if there are enough texts for one and all losses are finite."""

    mean: Figure
    low: Figure | None
    high: Figure | None
    texts: int


class TextEffect(NamedTuple):
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


@dataclass(frozen=True)
class DiscretisedFlow(Result):
    """The result of the study. `own` is the model by its own scheme, so it changes nothing but rounding; `ways` are
    schemes x sub-steps; `strang` and `merged` are None where they are not defined; `longer` has other step lengths."""

    study = "discretised-flow"

    model: str
    architecture: str
    predicts: Predicts
    stack: str
    scheme: str
    layers: int
    notes: tuple[str, ...]
    undefined: tuple[Undefined, ...]
    texts: int
    tokens: int  # that are scored
    loss: Figure | None  # the model's own, in nats per token
    own: TextEffect
    halved: TextEffect | None  # two sub-steps
    strang: TextEffect | None
    merged: TextEffect | None
    ways: tuple[TextEffect, ...]
    longer: tuple[TextEffect, ...]
    errors: tuple[LocalError, ...]
    made: Inlined[Provenance]
    chance: Figure | None = None  # the loss of a uniform guess


def discretised_flow(
    opened: Opened,
    texts: Sequence[str],
    tokens: int,
    schemes: Sequence[str],
    substeps: Sequence[int],
    factors: Sequence[float],
    progress: Counting | None = None,
    errors_progress: Counting | None = None,
) -> DiscretisedFlow:
    """How a pretrained model depends on its discretisation, on texts that are cut after so many tokens."""
    flow, batches = flow_and_batches(opened, texts, tokens)
    model, stack, own = opened.model, flow.stacks[flow.main], flow.scheme
    ways, named, undefined = plan_of(own, stack.substeps, len(stack.layers), schemes, substeps)
    kind, longer = predicts(model, batches[0]), [Way(own, stack.substeps, factor) for factor in factors]
    tried = [*ways, *filter(None, named.values()), *longer]

    def problem(batch: Mapping[str, Tensor]) -> Problem:
        return problem_of_flow(flow, inputs_of(model, batch))

    run = run_ways(problem, batches, tried, [None], partial(compare, model, kind), progress)
    found = {way: list(chain(*some)) for way, some in run.items()}
    texts_alone = found[ways[0]]
    effects = {way: effect_of(way, some, texts_alone) for way, some in found.items()}
    losses = [one.loss for one in texts_alone if one.loss is not None]
    errors = [] if no_equation(own) else errors_on(flow, batches[0], errors_progress)
    place = Path(opened.name).resolve()  # of a folder that is just called model the name says little
    name = f"{place.parent.name}/{place.name}" if place.name == "model" else place.name
    return DiscretisedFlow(
        model=opened.name if opened.source == "hub" else name, architecture=type(model).__name__, predicts=kind,
        stack=flow.main, scheme=str(own), layers=len(stack.layers), notes=flow.notes, undefined=tuple(undefined),
        texts=len(texts), tokens=sum(one.tokens for one in texts_alone),
        loss=math.fsum(losses) / len(losses) if losses else None,
        own=effects[ways[0]], ways=tuple(effects[way] for way in ways),
        longer=tuple(effects[way] for way in longer), errors=tuple(errors), made=made_by_study(),
        chance=math.log(model.config.get_text_config().vocab_size),
        **{name: None if way is None else effects[way] for name, way in named.items()},
    )  # fmt: skip


def flow_and_batches(opened: Opened, texts: Sequence[str], tokens: int) -> tuple[Flow, list[dict[str, Tensor]]]:
    """The model in float32 as a flow, and the texts as its inputs."""
    model = opened.model
    if model.main_input_name != "input_ids":
        raise ValueError(f"{opened.name} takes {model.main_input_name}: converge needs a model of texts")
    batches = list(batches_of(texts, opened.needs_tokenizer(), tokens, BATCH))
    lengths = [int(n) for batch in batches for n in batch["attention_mask"].sum(1)]
    if short := [text for text, n in zip(texts, lengths, strict=True) if n < 2]:
        raise ValueError(f"the text {short[0][:40]!r} has one token, and so nothing to predict: leave it out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what could not be taken apart is in the flow's notes
        return load(opened._replace(model=model.float())), batches


@torch.no_grad()
def errors_on(flow: Flow, batch: Mapping[str, Tensor], progress: Counting | None) -> list[LocalError]:
    """Local errors on the beginning of the first text."""
    part = {name: x[:1, :PROBED_TOKENS] for name, x in batch.items()}
    return local_errors(problem_of_flow(flow, inputs_of(flow.model, part)), (1.0,), EXACT, MOST, progress)


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


class TextFigures(NamedTuple):
    """Sums over the scored tokens of one text."""

    tokens: int
    changed: float
    own: float
    kl: float | None
    equal: int | None
    loss: float | None  # per token


def compare(
    model: Any, kind: Predicts, batch: Mapping[str, Tensor], problem: Problem, output: Tensor, own: Tensor
) -> list[TextFigures]:
    """What is summed over each text of a batch. One text after the other: the logits of all would take much memory."""
    labels = batch["labels"] if model.config.is_encoder_decoder else shifted(batch["labels"])
    scored = labels != IGNORED if kind == "next" else batch["attention_mask"].bool()
    masks = scored if own.ndim > 2 else [None] * len(own)
    return [figures_of_text(*text, kind) for text in zip(output, own, masks, labels, strict=True)]


def figures_of_text(output: Tensor, own: Tensor, scored: Tensor | None, labels: Tensor, kind: Predicts) -> TextFigures:
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


def effect_of(way: Way, found: Sequence[TextFigures], own: Sequence[TextFigures]) -> TextEffect:
    """All texts together, and the interval of the change of the loss over texts."""
    tokens = sum(one.tokens for one in found)
    kl = [one.kl for one in found if one.kl is not None]
    equal = [one.equal for one in found if one.equal is not None]
    pairs = [(one.loss, before.loss) for one, before in zip(found, own, strict=True)]
    return TextEffect(
        str(way.scheme), way.substeps, way.factor, way.merged,
        output=math.sqrt(math.fsum(one.changed for one in found) / math.fsum(one.own for one in found)),
        kl=math.fsum(kl) / tokens if kl else None, shared=sum(equal) / tokens if equal else None,
        loss=change_of([loss - before for loss, before in pairs if loss is not None and before is not None]),
    )  # fmt: skip


def change_of(values: Sequence[float]) -> Change | None:
    """The mean change over texts; without an interval if a loss is not finite."""
    if not all(map(math.isfinite, values)):
        return Change(math.inf, None, None, len(values))
    found = estimate(values)
    return None if found is None else Change(*found)
