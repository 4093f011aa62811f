"""The error of one step, told apart into the part of the splitting and the part of the sub-flows.

From a state x, one step of length h is compared with the exact flow of the sum of the fields. In between stands the
same splitting with exact sub-flows:

    step - exact = (step - split) + (split - exact) = sub-flow part + splitting part

To leading order the splitting part is h^2 C(x), with C as `probes/splitting.py` says: commutators of the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ...integrate import Step, refine
from ...probes.splitting import (
    EXACT,
    MOST,
    advanced,
    commutator_weights,
    reference_of,
    second_order_term,
    size,
    with_exact_parts,
)
from ...support.typed import Figure
from ...training.progress import Counting
from .ways import Problem


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
