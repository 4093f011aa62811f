"""A network on a batch as an initial-value problem, the ways to run it, the loop over them, and local errors: the error
of one step, told apart into the part of the splitting and the part of the sub-flows.

From a state x, one step of length h is compared with the exact flow of the sum of the fields. In between stands the
same splitting with exact sub-flows:

    step - exact = (step - split) + (split - exact) = sub-flow part + splitting part

To leading order the splitting part is h^2 C(x), with C as `probes/splitting.py` says: commutators of the fields.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ...flows import Flow
from ...flows.flow import OwnFlow
from ...integrate import Field, Step, Time, integrate, refine
from ...kernels.loss import IGNORED, shifted
from ...models import CausalConfig, SplitstepModel
from ...models.base import all_stacks
from ...notation import read
from ...probes.splitting import (
    EXACT,
    MOST,
    SUM,
    advanced,
    commutator_weights,
    reference_of,
    second_order_term,
    size,
    summed,
    with_exact_parts,
)
from ...scheme import Scheme, shown, with_tableau
from ...schemes import SCHEMES, scheme
from ...support.typed import Figure
from ...tableau import EULER, MIDPOINT, RK4
from ...training.progress import Counting

FACTORS = tuple(2 ** (k / 2) for k in range(-4, 5))  # of the step
SUBSTEPS = (1, 2, 4, 8)
TRIED = ("lie", "parallel", "strang", "strang-midpoint", "heun", "rk4")  # of which those are run that fit the fields

T = TypeVar("T")
B = TypeVar("B", bound=Mapping[str, Tensor])


class Way(NamedTuple):
    """A way to run a network's fields: by a scheme, or (None) by their continuous limit, which is rk4 on their sum with
    many sub-steps. The step is `factor` times as long; `merged` neighbouring layers are one step."""

    scheme: Scheme | None
    substeps: int
    factor: float = 1.0
    merged: int = 1


@dataclass(frozen=True)
class Problem:
    """x' = the sum of the fields from x at t = 0, by one step per layer (or `substeps`), and finish(x) -> logits.

    `real` [B, T] is False for padding; `scored` has the shape of the logits without their last axis and is False where
    nothing is predicted. Anything that can be written so can be studied, whoever made the network.
    """

    scheme: Scheme
    steps: Sequence[Step]
    x: Tensor
    context: Any
    finish: Callable[[Tensor], Tensor]
    real: Tensor | None = None
    scored: Tensor | None = None
    substeps: int = 1

    def end(self, way: Way | None = None) -> Tensor:
        """The state after all layers: of the network itself, or by another way to run its fields."""
        scheme, substeps, factor, merged = way or Way(self.scheme, self.substeps)
        own = (one_step(self.steps[i : i + merged]) for i in range(0, len(self.steps), merged))  # the last has the rest
        steps = [Step(one.fields, factor * one.t, factor * one.h) for one in own]
        if scheme is not None:
            return advanced(scheme, refine(steps, substeps), self.x, self.context)
        whole = [one._replace(fields=summed(self.scheme, one)) for one in steps]
        return integrate(SUM, refine(whole, substeps), self.x, self.context)

    def states(self) -> list[Tensor]:
        """The state before each layer and after the last, by the network's own scheme; of a pair the mean."""
        found = [self.x]
        for step in self.steps:
            found.append(advanced(self.scheme, refine([step], self.substeps), found[-1], self.context))
        return found


def one_step(steps: Sequence[Step]) -> Step:
    """Neighbouring layers as one step over their whole time, with the mean of their fields: all of them are evaluated
    at the same state."""
    if len(steps) == 1:
        return steps[0]
    h = sum(one.h for one in steps)

    def mean(name: str) -> Field:
        def field(t: Time, x: Tensor, context: Any) -> Tensor:
            return torch.stack([one.h / h * one.fields[name](t, x, context) for one in steps]).sum(0)

        return field

    return Step({name: mean(name) for name in steps[0].fields}, steps[0].t, h)


def no_equation(scheme: Scheme) -> str:
    """Why a scheme approximates no equation; empty if it does."""
    if not (scheme.replaces or scheme.projections):
        return ""
    return (
        f"a part of {shown(scheme)!r} projects or replaces the state, so there is no equation that shorter steps "
        "approach"
    )


def check_equation(scheme: Scheme) -> None:
    """Refuse a scheme that approximates no equation."""
    if why := no_equation(scheme):
        raise ValueError(
            f"{why[0].upper()}{why[1:]}: use a network whose parts all add, such as one trained with scheme=lie."
        )


def problem_of_flow(flow: Flow, inputs: Mapping[str, Any], scored: Tensor | None = None) -> Problem:
    """The main stack of any model on its inputs. Stacks before it, such as an encoder, run as they are."""
    stack, doubled = flow.stacks[flow.main], flow.scheme.doubled
    start, context = flow.embed(inputs), flow.context(inputs)
    steps = [Step(layer, i * stack.step, stack.step) for i, layer in enumerate(stack.layers)]  # pyright: ignore
    mask = inputs.get("decoder_attention_mask" if "decoder_input_ids" in inputs else "attention_mask")
    return Problem(
        stack.scheme, steps, start[0] if doubled else start, context,
        lambda x: flow.head((x, x) if doubled else x, context), None if mask is None else mask.bool(), scored,
        stack.substeps,
    )  # fmt: skip


def problem_of(model: SplitstepModel, batch: Mapping[str, Tensor]) -> Problem:
    """One of our own models on a batch of its task."""
    stacks = list(all_stacks(model))
    if len(stacks) != 1:
        raise ValueError(f"A {model.config.model_type} model has {len(stacks)} stacks: use a model with one.")
    check_equation(stacks[0].scheme)
    types = {name: model.dtype if x.is_floating_point() else x.dtype for name, x in batch.items()}
    given = {name: x.to(model.device, types[name]) for name, x in batch.items() if name != "labels"}
    labels, logits = labels_of(model, batch), model(**given, use_cache=False).logits
    scored = None if labels is None or labels.ndim < logits.ndim - 1 else (labels != IGNORED).to(logits.device)
    return problem_of_flow(OwnFlow(model), given, scored)


def labels_of(model: SplitstepModel, batch: Mapping[str, Tensor]) -> Tensor | None:
    """The label of each prediction, in a causal model that of the next token."""
    labels = batch.get("labels")
    return shifted(labels) if labels is not None and isinstance(model.config, CausalConfig) else labels


def check_factors(factors: Sequence[float]) -> tuple[float, ...]:
    """The factors of the step in order, each once; the usual ones if none are given."""
    for one in factors:
        if not 0 < one <= 1024:
            raise ValueError(f"--steps: a step of {one:g} times its length: use numbers above 0 and up to 1024.")
    return tuple(sorted(set(factors or FACTORS)))


def check_substeps(substeps: Sequence[int]) -> tuple[int, ...]:
    """The numbers of sub-steps in order, each once; the usual ones if none are given."""
    if not all(0 < one <= 1024 for one in substeps):
        given = ",".join(map(str, substeps))
        raise ValueError(f"--substeps {given}: give whole numbers from 1 to 1024, such as --substeps 1,2,4,8.")
    return tuple(sorted(set(substeps or SUBSTEPS)))


def given_schemes(own: Scheme, texts: Sequence[str]) -> list[Scheme]:
    """The network's own scheme, then those given."""
    given = [scheme(text) for text in texts]
    for one in given:
        if one.replaces or one.projections or set(one.fields) != set(own.fields):
            raise ValueError(
                f"--schemes: {str(one)!r} does not run the fields of this network, {', '.join(own.fields)}, with parts "
                "that all add: use schemes of these fields."
            )
    return list(dict.fromkeys([own, *given]))


def fitting(own: Scheme, texts: Sequence[str]) -> list[Scheme]:
    """The network's own scheme, then those given or, if there are none, the usual ones that have the same fields."""
    check_equation(own)
    if texts:
        return given_schemes(own, texts)
    return [own, *(s for s in map(SCHEMES.__getitem__, TRIED) if s.fields == own.fields and s != own)]


def usual(own: Scheme) -> list[Scheme]:
    """The model's own scheme and others of the same fields: parallel, both of Strang's, of order two, of order four."""
    names = whole_fields(own)
    if len(names) < 2:
        return [own, with_tableau(own, MIDPOINT), with_tableau(own, RK4)] if names else [own]
    together, strang, other = read("+".join(names)), symmetric(*names), symmetric(*reversed(names))
    every = [own, together, strang, other, with_tableau(strang, MIDPOINT), with_tableau(together, RK4)]
    return list(dict.fromkeys(every))


def strang_of(own: Scheme) -> Scheme | None:
    """Strang's splitting of a scheme's fields, the last ones outside: F/2 A F/2 of A F. None if it has one field, or
    advances one by fractions already."""
    names = whole_fields(own)
    return symmetric(*names) if len(names) > 1 else None


def symmetric(inner: str, *outer: str) -> Scheme:
    halves = [f"{name}/2" for name in outer]
    return read(" ".join([*reversed(halves), inner, *halves]))


def whole_fields(own: Scheme) -> list[str]:
    """The fields in order, if all advance whole steps by Euler."""
    simple = all(part.fraction == 1 and part.tableau == EULER and not part.half for _, part in own.substeps)
    return [name for _, part in own.substeps for name in part.fields] if simple and len(own.branches) == 1 else []


class Undefined(NamedTuple):
    """Something that a model of its kind does not have, and why."""

    what: str
    why: str


def plan_of(
    own: Scheme, k: int, layers: int, schemes: Sequence[str], substeps: Sequence[int]
) -> tuple[list[Way], Mapping[str, Way | None], list[Undefined]]:
    """The ways to run a model, those that decide by their names, and what is not defined. `k` is the number of
    sub-steps that the model has itself: 1 unless it is one of ours."""
    if why := no_equation(own):
        if schemes:
            check_equation(own)
        missing = [Undefined(what, why) for what in ("sub-steps", "other schemes", "merged layers", "local errors")]
        return [Way(own, k)], dict.fromkeys(("halved", "strang", "merged")), missing
    every = given_schemes(own, schemes) if schemes else usual(own)
    ways, strang = [Way(own, k), *(Way(s, n * k) for s in every for n in substeps)], strang_of(own)
    named = {
        "halved": Way(own, 2 * k),
        "strang": None if strang is None else Way(strang, k),
        "merged": Way(own, k, merged=2) if layers > 1 else None,
    }
    single = bool(whole_fields(own)) and len(own.substeps) == 1
    lacking = [
        (strang is None, "Strang's splitting", f"{shown(own)!r} does not have two fields with whole steps"),
        (layers < 2, "merged layers", "the model has one layer"),
        (single, "the splitting part of local errors", f"{shown(own)!r} has one part: nothing is split"),
    ]
    return list(dict.fromkeys(ways)), named, [Undefined(what, why) for lacks, what, why in lacking if lacks]


@torch.no_grad()
def run_ways(
    problems: Callable[[B], Problem],
    batches: Sequence[B],
    ways: Iterable[Way],
    references: Sequence[Way | None],
    compare: Callable[..., T],
    progress: Counting | None = None,
) -> dict[Way, list[T]]:
    """What is found in the output of each way, batch by batch: `compare` is given a batch, its problem, the output, and
    the outputs of the references, of which None is the network itself."""
    found: dict[Way, list[T]] = {way: [] for way in ways}
    for number, batch in enumerate(batches):
        problem = problems(batch)
        known = [problem.finish(problem.end(way)) for way in references]
        for k, (way, own) in enumerate(found.items(), 1):
            own.append(compare(batch, problem, problem.finish(problem.end(way)), *known))
            if progress is not None:
                progress(number * len(found) + k, len(batches) * len(found))
    return found


class LocalError(NamedTuple):
    """The error of one step of one layer, in norms over the real tokens, relative to the length `moved` of the exact
    step. `leading`: of h^2 C; `remainder`: of the splitting part minus h^2 C, relative to the splitting part. A
    scheme of a single part splits nothing: it has no splitting part."""

    layer: int
    factor: float  # of the layer's own step
    moved: Figure
    total: Figure
    splitting: Figure | None
    subflow: Figure
    reference: Figure
    leading: Figure | None = None
    remainder: Figure | None = None


def local_error(
    problem: Problem, layer: int, x: Tensor, factor: float, second: Tensor | None, tolerance: float, most: int
) -> LocalError:
    """The error of one step of a layer from x, `factor` times as long as its own; `second` is C(x)."""
    scheme, context, real, own = problem.scheme, problem.context, problem.real, problem.steps[layer]
    step = Step(own.fields, own.t, factor * own.h)
    exact, error, n = reference_of(scheme, step, x, context, real, tolerance, most)
    pieces = refine([step], problem.substeps)
    there, moved = advanced(scheme, pieces, x, context), size(exact - x, real)
    total = size(there - exact, real) / moved
    if len(scheme.substeps) == 1:
        return LocalError(layer, factor, moved, total, None, total, error / moved)
    split = advanced(with_exact_parts(scheme, n), pieces, x, context)
    splitting, subflow = (size(y, real) / moved for y in (split - exact, there - split))
    found = LocalError(layer, factor, moved, total, splitting, subflow, error / moved)
    if second is None:
        return found
    predicted = step.h**2 * second
    remainder = size(split - exact - predicted, real) / size(split - exact, real)
    return found._replace(leading=size(predicted, real) / moved, remainder=remainder)


def local_errors(
    problem: Problem,
    factors: Sequence[float],
    tolerance: float = EXACT,
    most: int = MOST,
    progress: Counting | None = None,
) -> list[LocalError]:
    """The error of every layer of the network, from its own states, for each factor of its step. The exact flow is
    known to `tolerance`, relative to how far it moves the state, unless that takes more than `most` sub-steps."""
    weights = commutator_weights(problem.scheme) if not problem.scheme.doubled and problem.substeps == 1 else {}
    found: list[LocalError] = []
    for layer, x in enumerate(problem.states()[:-1]):
        second = second_order_term(weights, problem.steps[layer], x, problem.context) if weights else None
        found += [local_error(problem, layer, x, factor, second, tolerance, most) for factor in factors]
        if progress is not None:
            progress(layer + 1, len(problem.steps))
    return found
