"""The sums of ridge functions that a network computes: outputs that are equal up to a symmetry are fitted once."""

from collections.abc import Sequence
from itertools import islice, permutations
from typing import NamedTuple

import numpy as np

from .ridges import Fit, RidgeSum, best_fit, fit, grid_and_random, levels, points_beside
from .targets import Array, Target, samples

SHARE = {1: 0.5, 2: 0.45, 4: 0.2}  # of eps that the fit may use, by variables; the proof's cells need the rest
SHARE_OF_MANY = 0.6
SAMPLES = 512
SAME = 1e-12
MOST_PERMUTED = 5  # variables of which all permutations are tried
SHARPNESSES = (0.0, 12.0, -12.0)  # of exponential means: the mean, a soft maximum and a soft minimum
MOST_LEVELS = 2  # of fits to means: the third takes a minute and has some thousand units


class Symmetries(NamedTuple):
    """For each output: the variables that it depends on; and another output with an order of the variables, such that
    output(x) = other(x[order]). An output that is like no earlier one names itself."""

    active: list[list[int]]
    like: list[tuple[int, tuple[int, ...]]]
    own: list[list[tuple[int, ...]]]  # orders that leave the output as it is


def symmetries_of(target: Target) -> Symmetries:
    """Found on samples: they only save work, for the certificate looks at every output by itself."""
    x, m = samples(target, SAMPLES), target.variables
    y, itself = target(x), tuple(range(m))
    moved = {order: target(x[:, order]) for order in (permutations(itself) if m <= MOST_PERMUTED else [itself])}
    like, own = [], []
    for output in range(m):
        same = [
            (o, order)
            for o in range(output + 1)
            for order, z in moved.items()
            if np.abs(y[:, output] - z[:, o]).max() < SAME
        ]
        same.sort(key=lambda pair: pair[1] != itself)  # an output that is simply equal shares its units
        like.append(same[0])
        own.append([order for o, order in same if o == output])
    return Symmetries(active_of(target, x, y), like, own)


def active_of(target: Target, x: Array, y: Array) -> list[list[int]]:
    """The variables that each output depends on."""
    other, variables = np.random.default_rng(3).random(x.shape), range(target.variables)
    moves = []
    for j in variables:
        changed = x.copy()
        changed[:, j] = other[:, j]
        moves.append(np.abs(target(changed) - y).max(0) > SAME)
    return [[j for j in variables if moves[j][output]] for output in variables]


def within(active: Sequence[int], found: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Orders of all variables as orders of the active ones, if they move no others."""
    at = {variable: k for k, variable in enumerate(active)}
    inside = {tuple(at[order[j]] for j in active) for order in found if all(order[j] in at for j in active)}
    return sorted(inside | {tuple(range(len(active)))})


def fit_outputs(target: Target, eps: float) -> tuple[list[RidgeSum], list[Fit]]:
    """A sum of ridge functions for each output, and the fits that they come from."""
    found = symmetries_of(target)
    fits, functions = dict[int, Fit](), list[RidgeSum]()
    for output, (other, order) in enumerate(found.like):
        if other == output:
            fits[output] = fit_one(target, output, found, eps)
            functions.append(fits[output].function)
        elif list(order) == sorted(order):
            functions.append(functions[other])  # the same object: its units are shared
        else:
            functions.append(functions[other].permuted(order))
    return functions, list(fits.values())


def fit_one(target: Target, output: int, found: Symmetries, eps: float) -> Fit:
    """The fit of one output in the variables that it depends on."""
    active, m = found.active[output], target.variables

    def f(x: Array) -> Array:
        whole = np.full((len(x), m), 0.5)
        whole[:, active] = x
        return target(whole)[:, output]

    if not active:
        constant = float(f(np.zeros((1, 0)))[0])
        return Fit(RidgeSum(constant, np.zeros(m), np.zeros((0, m)), np.zeros(0), np.zeros(0)), 0.0, "exact")
    share = SHARE.get(m, SHARE_OF_MANY)
    one = fit(f, len(active), within(active, found.own[output]), share * eps)
    return one._replace(function=one.function.among(active, m))


def features(x: Array) -> Array:
    """The first token's own number and the exponential means of all: [N, n] -> [N, 1 + means].

    A head with the query s and the key x_j gives token j the weight exp(s x_j) / sum_k exp(s x_k). So its mean does not
    depend on the order of the tokens, and means with several s say more about the numbers than one.
    """
    weights = np.exp(np.multiply.outer(SHARPNESSES, x))
    return np.column_stack([x[:, 0], *((weights * x).sum(-1) / weights.sum(-1))])


def fit_means(target: Target, enough: float) -> Fit:
    """A sum of ridge functions of the features: the error on points is at most `enough`, or the least found."""
    points = grid_and_random(target.variables), points_beside(target.variables)
    here, beside = ((features(x), target(x)[:, 0]) for x in points)
    variables = here[0].shape[1]
    some = islice(levels(variables, [range(variables)], flat=False), MOST_LEVELS)
    return best_fit(some, here, beside, enough, enough, "exponential means, ")
