"""The error of one step, told apart into the part of the splitting and the part of the sub-flows.

From a state x, one step of length h is compared with the exact flow of the sum of the fields. In between stands the
same splitting with exact sub-flows:

    step - exact = (step - split) + (split - exact) = sub-flow part + splitting part

To leading order the splitting part is h^2 C(x), with C the sum over pairs of parts i < j, of fractions c_i and c_j, of
c_i c_j / 2 [f_i, f_j], and [f, g] = g'(x) f(x) - f'(x) g(x). For "A F" that is h^2 / 2 [A, F]. (Fields that depend on
the time would have another term.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import jvp

from ...fields import exact_attention
from ...integrate import Field, Step, integrate, refine
from ...scheme import Part, Project, Scheme, Substep
from ...support.typed import Figure
from ...tableau import RK4
from .flow import SUM, Flow, advanced, summed

FIRST, MOST = 4, 512  # sub-steps of a reference: doubled until it is exact enough
EXACT = 1e-7  # a reference's error, relative to how far the step moves the state


class Reference(NamedTuple):
    """The exact flow over a step, its error (the distance to half the sub-steps) and the sub-steps that it took."""

    x: Tensor
    error: float
    substeps: int


class LocalError(NamedTuple):
    """The error of one step of one layer, in norms over the real tokens, relative to the length `moved` of the exact
    step. `leading`: of h^2 C; `remainder`: of the splitting part minus h^2 C, relative to the splitting part."""

    layer: int
    factor: float  # of the layer's own step
    moved: Figure
    total: Figure
    splitting: Figure
    subflow: Figure
    reference: Figure
    leading: Figure | None = None
    remainder: Figure | None = None


def size(x: Tensor, real: Tensor | None) -> float:
    """The norm over all real tokens."""
    return float((x if real is None else x[real]).norm())


def reference_of(scheme: Scheme, step: Step, x: Tensor, context: Any, real: Tensor | None) -> Reference:
    """The exact flow of the sum of the fields over a step: rk4 with sub-steps that are halved until nothing changes."""
    whole = [step._replace(fields=summed(scheme, step))]
    n, y = FIRST, integrate(SUM, refine(whole, FIRST), x, context)
    while True:
        n, before = 2 * n, y
        y = integrate(SUM, refine(whole, n), x, context)
        error = size(y - before, real)
        if error <= EXACT * size(y - x, real) or n >= MOST:
            return Reference(y, error, n)


def with_exact_parts(scheme: Scheme, n: int) -> Scheme:
    """The same splitting with sub-flows that are as good as exact: each by n steps of rk4."""

    def cut(part: Part) -> tuple[Part, ...]:
        if isinstance(part, Project) or part.exact:
            return (part,)
        return (replace(part, fraction=part.fraction / n, tableau=RK4),) * n

    return Scheme(tuple((w, tuple(piece for part in p for piece in cut(part))) for w, p in scheme.branches))


def commutator_weights(scheme: Scheme) -> dict[tuple[str, str], float]:
    """The weight of [f, g] in C for each pair of fields; pairs whose weight is 0 are left out."""
    found: dict[tuple[str, str], float] = {}
    for weight, program in scheme.branches:
        parts = [part for part in program if isinstance(part, Substep)]
        for j, late in enumerate(parts):
            for early in parts[:j]:
                half = float(weight * early.fraction * late.fraction) / 2
                for f, g in ((f, g) for f in early.fields for g in late.fields if f != g):
                    key, sign = ((f, g), 1.0) if f < g else ((g, f), -1.0)
                    found[key] = found.get(key, 0.0) + sign * half
    return {key: value for key, value in found.items() if abs(value) > 1e-12}


def commutator(f: Field, g: Field, t: Any, x: Tensor, context: Any) -> Tensor:
    """[f, g] = g'(x) f(x) - f'(x) g(x)."""

    def along(field: Field, other: Field) -> Tensor:
        return jvp(lambda y: field(t, y, context), (x,), (other(t, x, context),))[1]

    with exact_attention():
        return along(g, f) - along(f, g)


def second_order_term(weights: Mapping[tuple[str, str], float], step: Step, x: Tensor, context: Any) -> Tensor:
    """C(x)."""
    terms = (w * commutator(step.fields[f], step.fields[g], step.t, x, context) for (f, g), w in weights.items())
    return sum(terms, torch.zeros_like(x))


def local_error(flow: Flow, layer: int, x: Tensor, factor: float, second: Tensor | None) -> LocalError:
    """The error of one step of a layer from x, `factor` times as long as its own; `second` is C(x)."""
    own = flow.steps[layer]
    step = Step(own.fields, own.t, factor * own.h)
    exact, error, n = reference_of(flow.scheme, step, x, flow.context, flow.real)
    pieces = refine([step], flow.substeps)
    split = advanced(with_exact_parts(flow.scheme, n), pieces, x, flow.context)
    there = advanced(flow.scheme, pieces, x, flow.context)
    moved = size(exact - x, flow.real)
    total, splitting, subflow = (size(y, flow.real) / moved for y in (there - exact, split - exact, there - split))
    found = LocalError(layer, factor, moved, total, splitting, subflow, error / moved)
    if second is None:
        return found
    predicted = step.h**2 * second
    remainder = size(split - exact - predicted, flow.real) / size(split - exact, flow.real)
    return found._replace(leading=size(predicted, flow.real) / moved, remainder=remainder)


def local_errors(flow: Flow, factors: tuple[float, ...]) -> list[LocalError]:
    """The error of every layer of the network, from its own states, for each factor of its step."""
    weights = commutator_weights(flow.scheme) if not flow.scheme.doubled and flow.substeps == 1 else {}
    found: list[LocalError] = []
    for layer, x in enumerate(flow.states()[:-1]):
        second = second_order_term(weights, flow.steps[layer], x, flow.context) if weights else None
        found += [local_error(flow, layer, x, factor, second) for factor in factors]
    return found
