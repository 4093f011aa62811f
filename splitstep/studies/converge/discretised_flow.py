"""Is a pretrained model a discretised flow? Its loss under other discretisations of its own fields."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...experiments.result import Result
from ...flows import Flow
from ...notation import read
from ...opening import Opened, load
from ...opening.texts import batches_of
from ...scheme import Scheme, shown, with_tableau
from ...support.provenance import Provenance, made
from ...support.typed import Figure, Inlined
from ...tableau import EULER, MIDPOINT, RK4
from ...training.progress import Counting
from .changes import Changed, Predicts, aligned_labels, inputs_of, predicts, run_on_texts
from .local_errors import Exactness, LocalError, local_errors
from .problem import Problem, check_equation, no_equation, problem_of_flow
from .variations import Way, fitting

SUBSTEPS = (1, 2, 4, 8)
FACTORS = tuple(2 ** (k / 2) for k in range(-4, 5))  # of the step
TOKENS = 64  # of each text
BATCH = 8  # texts at once
EXACTNESS = Exactness(1e-3, 64)  # of local errors: models are in float32 and may have hundreds of fields
PROBED_TOKENS = 32  # of the text of the local errors


class Undefined(NamedTuple):
    """Something that a model of its kind does not have, and why."""

    what: str
    why: str


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
    own: Changed
    halved: Changed | None  # two sub-steps
    strang: Changed | None
    merged: Changed | None
    ways: tuple[Changed, ...]
    longer: tuple[Changed, ...]
    errors: tuple[LocalError, ...]
    made: Inlined[Provenance]
    chance: Figure | None = None  # the loss of a uniform guess


def strang_of(own: Scheme) -> Scheme | None:
    """Strang's splitting of a scheme's fields, the last ones outside: F/2 A F/2 of A F. None if it has one field, or
    advances one by fractions already."""
    names = [name for part in whole_parts(own) for name in part]
    if len(names) < 2:
        return None
    inner, *outer = names
    halves = [f"{name}/2" for name in outer]
    return read(" ".join([*reversed(halves), inner, *halves]))


def whole_parts(own: Scheme) -> list[tuple[str, ...]]:
    """The fields of each part, if all advance whole steps by Euler."""
    simple = all(part.fraction == 1 and part.tableau == EULER and not part.half for _, part in own.substeps)
    return [part.fields for _, part in own.substeps] if simple and len(own.branches) == 1 else []


def usual(own: Scheme) -> list[Scheme]:
    """The model's own scheme and others of the same fields: parallel, both of Strang's, of order two, of order four."""
    parts = whole_parts(own)
    if not parts:
        return [own]
    together = read("+".join(name for part in parts for name in part))
    strang = strang_of(own)
    if strang is None:
        return [own, with_tableau(own, MIDPOINT), with_tableau(own, RK4)]
    names = [name for part in parts for name in part]
    first = read(" ".join([*(f"{name}/2" for name in names[:-1]), names[-1], *(f"{n}/2" for n in names[-2::-1])]))
    made = [own, together, strang, first, with_tableau(strang, MIDPOINT), with_tableau(together, RK4)]
    return list(dict.fromkeys(made))


class Plan(NamedTuple):
    """The ways to run a model, by what they are for, and what is not defined."""

    ways: list[Way]
    halved: Way | None
    strang: Way | None
    merged: Way | None
    longer: list[Way]
    undefined: list[Undefined]

    @property
    def all_ways(self) -> list[Way]:
        """Each once."""
        single = [one for one in (self.halved, self.strang, self.merged) if one is not None]
        return list(dict.fromkeys([*self.ways, *single, *self.longer]))


def plan_of(
    own: Scheme, k: int, layers: int, schemes: Sequence[str], substeps: Sequence[int], factors: Sequence[float]
) -> Plan:
    """What to run. `k` is the number of sub-steps that the model has itself: 1 unless it is one of ours."""
    longer = [Way(own, k, factor) for factor in factors]
    if why := no_equation(own):
        if schemes:
            check_equation(own)
        missing = [Undefined(what, why) for what in ("sub-steps", "other schemes", "merged layers", "local errors")]
        return Plan([Way(own, k)], None, None, None, longer, missing)
    every = fitting(own, schemes) if schemes else usual(own)
    ways = [Way(own, k), *(Way(s, n * k) for s in every for n in substeps)]
    strang, missing = strang_of(own), list[Undefined]()
    if strang is None:
        missing.append(Undefined("Strang's splitting", f"{shown(own)!r} does not have two fields with whole steps"))
    if layers < 2:
        missing.append(Undefined("merged layers", "the model has one layer"))
    if len(whole_parts(own)) == 1:
        missing.append(
            Undefined("the splitting part of local errors", f"{shown(own)!r} has one part: nothing is split")
        )
    symmetric = None if strang is None else Way(strang, k)
    merged = Way(own, k, merged=2) if layers > 1 else None
    return Plan(ways, Way(own, 2 * k), symmetric, merged, longer, missing)


def discretised_flow(
    opened: Opened,
    texts: Sequence[str],
    tokens: int = TOKENS,
    schemes: Sequence[str] = (),
    substeps: Sequence[int] = SUBSTEPS,
    factors: Sequence[float] = FACTORS,
    command: str | None = None,
    progress: Counting | None = None,
    errors_progress: Counting | None = None,
) -> DiscretisedFlow:
    """How a pretrained model depends on its discretisation, on texts that are cut after so many tokens."""
    flow, batches = flow_and_batches(opened, texts, tokens)
    model, stack = opened.model, flow.stacks[flow.main]
    plan = plan_of(flow.scheme, stack.substeps, len(stack.layers), schemes, substeps, factors)
    kind, tried = predicts(model, batches[0]), plan.all_ways
    measured = run_on_texts(
        lambda batch: problem_on(flow, batch),
        batches,
        tried,
        kind,
        lambda batch: aligned_labels(model, batch),
        progress,
    )
    found = dict(zip(tried, measured.changes, strict=True))
    errors = [] if no_equation(flow.scheme) else errors_on(flow, batches[0], errors_progress)
    return DiscretisedFlow(
        model=short_name(opened), architecture=type(model).__name__, predicts=kind, stack=flow.main,
        scheme=str(flow.scheme), layers=len(stack.layers), notes=flow.notes, undefined=tuple(plan.undefined),
        texts=len(texts), tokens=measured.tokens, loss=measured.loss, own=found[plan.ways[0]],
        halved=changed(found, plan.halved), strang=changed(found, plan.strang), merged=changed(found, plan.merged),
        ways=tuple(found[way] for way in dict.fromkeys(plan.ways)), longer=tuple(found[way] for way in plan.longer),
        errors=tuple(errors), chance=math.log(model.config.get_text_config().vocab_size), made=made(command),
    )  # fmt: skip


def short_name(opened: Opened) -> str:
    """A model's name on the Hub, or the name of its folder or file; a folder that is just called model says little."""
    place = Path(opened.name).resolve()
    if opened.source == "hub":
        return opened.name
    return f"{place.parent.name}/{place.name}" if place.name == "model" else place.name


def changed(found: Mapping[Way, Changed], way: Way | None) -> Changed | None:
    return None if way is None else found[way]


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


def problem_on(flow: Flow, batch: Mapping[str, Tensor]) -> Problem:
    return problem_of_flow(flow, inputs_of(flow.model, batch))


@torch.no_grad()
def errors_on(flow: Flow, batch: Mapping[str, Tensor], progress: Counting | None) -> list[LocalError]:
    """Local errors on the beginning of the first text."""
    part = {name: x[:1, :PROBED_TOKENS] for name, x in batch.items()}
    return local_errors(problem_on(flow, part), (1.0,), EXACTNESS, progress)
