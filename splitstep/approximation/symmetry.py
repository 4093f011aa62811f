"""What samples say about a target: which variables an output depends on, and which outputs are equal up to an order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from .targets import Array, Target, samples

MANY = 512  # samples
SAME = 1e-12
MOST_VARIABLES = 5  # of which all permutations are tried


class Symmetries(NamedTuple):
    """For each output: the variables that it depends on; and another output with an order of the variables, such that
    output(x) = other(x[order]). An output that is like no earlier one names itself."""

    active: list[list[int]]
    like: list[tuple[int, tuple[int, ...]]]
    own: list[list[tuple[int, ...]]]  # orders that leave the output as it is


def symmetries_of(target: Target) -> Symmetries:
    """Found on samples: they only save work, for the certificate looks at every output by itself."""
    x = samples(target, MANY)
    y = target(x)
    m = target.variables
    moved = {order: target(x[:, order]) for order in orders(m)}
    like, own = [], []
    for output in range(m):
        equal = [(o, order) for o in range(output + 1) for order, z in moved.items() if same(y[:, output], z[:, o])]
        equal.sort(key=lambda pair: pair[1] != tuple(range(m)))  # an output that is simply equal shares its units
        like.append(equal[0])
        own.append([order for o, order in equal if o == output])
    return Symmetries(active_of(target, x, y), like, own)


def orders(m: int) -> Sequence[tuple[int, ...]]:
    return list(permutations(range(m))) if m <= MOST_VARIABLES else [tuple(range(m))]


def same(a: Array, b: Array) -> bool:
    return bool(np.abs(a - b).max() < SAME)


def active_of(target: Target, x: Array, y: Array) -> list[list[int]]:
    """The variables that each output depends on."""
    other = np.random.default_rng(3).random(x.shape)
    moves = []
    for j in range(target.variables):
        changed = x.copy()
        changed[:, j] = other[:, j]
        moves.append(np.abs(target(changed) - y).max(0) > SAME)
    return [[j for j in range(target.variables) if moves[j][output]] for output in range(target.variables)]


def within(active: Sequence[int], found: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Orders of all variables as orders of the active ones, if they move no others."""
    at = {variable: k for k, variable in enumerate(active)}
    inside = {tuple(at[order[j]] for j in active) for order in found if all(order[j] in at for j in active)}
    return sorted(inside | {tuple(range(len(active)))})
