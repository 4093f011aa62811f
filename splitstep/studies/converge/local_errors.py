"""The error of one step, told apart into the part of the splitting and the part of the sub-flows.

From a state x, one step of length h is compared with the exact flow of the sum of the fields. In between stands the
same splitting with exact sub-flows:

    step - exact = (step - split) + (split - exact) = sub-flow part + splitting part

To leading order the splitting part is h^2 C(x), with C as `probes/splitting.py` says: commutators of the fields.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ...integrate import Step, refine
from ...probes.splitting import (
    advanced,
    commutator_weights,
    reference_of,
    second_order_term,
    size,
    with_exact_parts,
)
from ...support.typed import Figure
from .flow import Flow


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
