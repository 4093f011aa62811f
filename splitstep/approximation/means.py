"""Networks of three tokens without positions: each token sees exponential means of all, and a sum of ridge functions
of its own number and these means. What is known about their error is sampled, not proved.

A head with the query s and the key x_j gives token j the weight exp(s x_j) / sum_k exp(s x_k). So its mean does not
depend on the order of the tokens, and means with several s say more about the numbers than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch

from ..models.vectors import SplitstepVectorsModel
from .network import blank_model, parts_of, units_of_one
from .ridges import Fit, as_units, best_of, grid_and_random, hats, levels, minimax, points_beside
from .targets import Array, Target

SHARPNESSES = (0.0, 12.0, -12.0)  # the mean, a soft maximum and a soft minimum
MOST_LEVELS = 2  # the third takes a minute and has some thousand units


def features(x: Array, sharpnesses: Sequence[float] = SHARPNESSES) -> Array:
    """The first token's own number and the exponential means of all: [N, n] -> [N, 1 + means]."""
    weights = np.exp(np.multiply.outer(sharpnesses, x))
    means = (weights * x).sum(-1) / weights.sum(-1)
    return np.column_stack([x[:, 0], *means])


def fit_means(target: Target, enough: float) -> Fit:
    """A sum of ridge functions of the features: the error on points is at most `enough`, or the least found."""
    points = [grid_and_random(target.variables), points_beside(target.variables)]
    (z, beside), (y, there) = map(features, points), (target(x)[:, 0] for x in points)
    itself = [tuple(range(z.shape[1]))]

    def fits() -> Iterator[Fit]:
        for found, pieces, largest in islice(levels(z.shape[1], itself, flat=False), MOST_LEVELS):
            values, error = minimax(hats(z, found, pieces), y, enough)
            sums = as_units(values, found, pieces)
            error = max(error, float(np.abs(sums(beside) - there).max()))
            yield Fit(sums, error, f"exponential means, directions up to {largest}, {pieces} pieces")

    return best_of(fits(), enough)


def build_from_means(fit: Fit, tokens: int, sharpnesses: Sequence[float] = SHARPNESSES) -> SplitstepVectorsModel:
    """The network: one head for each mean. The state holds the token's own number, the means and the output."""
    units, constant = units_of_one(fit.function, (0,), 0)
    many = len(sharpnesses)
    model = blank_model(many + 2, many, 1, len(units), tokens, "none")
    embedding, attention, feed_forward = parts_of(model)
    with torch.no_grad():
        embedding.weight[0] = 1.0
        attention.qkv.bias[:many] = torch.tensor(sharpnesses, dtype=torch.float64)
        attention.qkv.weight[many:, 0] = 1.0  # keys and values
        attention.out.weight[1 : many + 1] = torch.eye(many, dtype=torch.float64)
        for number, unit in enumerate(units):
            feed_forward.up.weight[number, : many + 1] = torch.tensor(unit.direction, dtype=torch.float64)
            feed_forward.up.bias[number] = unit.bias
            feed_forward.down.weight[many + 1, number] = unit.weight
        model.head.weight[0, many + 1] = 1.0
        model.head.bias[0] = constant
    return model
