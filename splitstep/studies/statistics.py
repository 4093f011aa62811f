"""Means over seeds and paired differences, with Student's t intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy.special import stdtrit

LEVEL = 0.95


class Estimate(NamedTuple):
    """The mean of n values and its interval; one value has a mean and no interval."""

    mean: float
    low: float | None
    high: float | None
    n: int


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """mean +- t_(n-1) s / sqrt(n), where s is the sample's deviation; None of no values."""
    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None, 1)
    s = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * s / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(
    values: Mapping[int, float], reference: Mapping[int, float], level: float = LEVEL
) -> Estimate | None:
    """values - reference, seed by seed, over the seeds that both have."""
    return estimate([v - reference[seed] for seed, v in sorted(values.items()) if seed in reference], level)
