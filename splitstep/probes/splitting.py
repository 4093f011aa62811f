"""The equation that a splitting scheme approximates, its exact flow, and how far the splitting is from it.

x' = the sum of the fields. One step of a splitting with exact sub-flows differs from the exact flow by h^2 C(x) to
leading order, with C the sum over pairs of parts i < j, of fractions c_i and c_j, of c_i c_j / 2 [f_i, f_j], and
[f, g] = g'(x) f(x) - f'(x) g(x). For "A F" that is h^2 / 2 [A, F]. (Fields that depend on the time would have another
term.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import jvp

from ..fields import exact_attention
from ..integrate import Field, Step, integrate, refine
from ..scheme import Part, Project, Scheme, Substep
from ..schemes import scheme as scheme_of
from ..tableau import RK4

SUM = scheme_of("F @rk4")  # of one field, which is the sum of all
FIRST, MOST = 4, 512  # sub-steps of a reference: doubled until it is exact enough
EXACT = 1e-7  # a reference's error, relative to how far the step moves the state


class Reference(NamedTuple):
    """The exact flow over a step, its error (the distance to half the sub-steps) and the sub-steps that it took."""

    x: Tensor
    error: float
    substeps: int


def advanced(scheme: Scheme, steps: Sequence[Step], x: Tensor, context: Any) -> Tensor:
    """The state after these steps; a doubled state starts as (x, x), and its mean is returned."""
    if not scheme.doubled:
        return integrate(scheme, steps, x, context)
    a, b = integrate(scheme, steps, (x, x), context)
    return (a + b) / 2


def shares(scheme: Scheme) -> dict[str, float]:
    """The factor of each field in the equation that a scheme approximates: 1, or the fraction of one of several
    sets of weights (F0/2 A F1/2 approximates x' = A + F0/2 + F1/2)."""
    found: dict[str, float] = {}
    for weight, part in scheme.substeps:
        for name in part.fields:
            share = float(weight * part.fraction) / (2 if scheme.doubled else 1)
            found[name] = found.get(name, 0.0) + share
    return found


def added_up(terms: Sequence[tuple[float, Field]]) -> Field:
    """The sum of fields times factors as one field."""

    def field(t: Any, x: Tensor, context: Any) -> Tensor:
        return sum((share * one(t, x, context) for share, one in terms), torch.zeros_like(x))

    return field


def summed(scheme: Scheme, step: Step) -> dict[str, Field]:
    """The sum of a step's fields as one field."""
    return {"F": added_up([(share, step.fields[name]) for name, share in shares(scheme).items()])}


def size(x: Tensor, real: Tensor | None) -> float:
    """The norm over all real tokens."""
    return float((x if real is None else x[real]).norm())


def reference_of(
    scheme: Scheme,
    step: Step,
    x: Tensor,
    context: Any,
    real: Tensor | None,
    exact: float = EXACT,
    most: int = MOST,
) -> Reference:
    """The exact flow of the sum of the fields over a step: rk4 with sub-steps that are halved until nothing changes by
    more than `exact`, or there are `most`."""
    whole = [step._replace(fields=summed(scheme, step))]
    n, y = FIRST, integrate(SUM, refine(whole, FIRST), x, context)
    while True:
        n, before = 2 * n, y
        y = integrate(SUM, refine(whole, n), x, context)
        error = size(y - before, real)
        if error <= exact * size(y - x, real) or n >= most:
            return Reference(y, error, n)


def with_exact_parts(scheme: Scheme, n: int) -> Scheme:
    """The same splitting with sub-flows that are as good as exact: each by n steps of rk4 for a whole step of time."""

    def cut(part: Part) -> tuple[Part, ...]:
        if isinstance(part, Project) or part.exact:
            return (part,)
        pieces = max(1, ceil(n * abs(part.fraction)))
        return (replace(part, fraction=part.fraction / pieces, tableau=RK4),) * pieces

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


def products_of(f: Field, g: Field, t: Any, x: Tensor, context: Any) -> tuple[Tensor, Tensor]:
    """g'(x) f(x) and f'(x) g(x)."""

    def along(field: Field, other: Field) -> Tensor:
        return jvp(lambda y: field(t, y, context), (x,), (other(t, x, context),))[1]

    with exact_attention():
        return along(g, f), along(f, g)


def commutator(f: Field, g: Field, t: Any, x: Tensor, context: Any) -> Tensor:
    """[f, g] = g'(x) f(x) - f'(x) g(x)."""
    one, other = products_of(f, g, t, x, context)
    return one - other


def second_order_term(weights: Mapping[tuple[str, str], float], step: Step, x: Tensor, context: Any) -> Tensor:
    """C(x)."""
    terms = (w * commutator(step.fields[f], step.fields[g], step.t, x, context) for (f, g), w in weights.items())
    return sum(terms, torch.zeros_like(x))
