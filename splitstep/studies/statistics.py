"""Means over seeds and paired differences: Student's t intervals, and bootstraps over sentences and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
SAMPLES = 1000  # of a bootstrap, as sacrebleu has them
Figure = Callable[[np.ndarray], np.ndarray]  # of sums over sentences [..., K]


class Estimate(NamedTuple):
    """The mean of n values and its interval; one value has a mean and no interval."""

    mean: float
    low: float | None
    high: float | None
    n: int


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """mean +- t_(n-1) s / sqrt(n), where s is the sample's deviation; None of no values."""
    from scipy.special import stdtrit

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


def draw_samples(sentences: int, pairs: int, samples: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    """The sentences [B, N] and the pairs of runs [B, S] of each sample, drawn with replacement."""
    random = np.random.default_rng(12345)
    return random.integers(sentences, size=(samples, sentences)), random.integers(pairs, size=(samples, pairs))


def resampled_differences(
    ours: np.ndarray, theirs: np.ndarray, figure: Figure, rows: np.ndarray, pairs: np.ndarray
) -> np.ndarray:
    """The mean over drawn pairs of runs of figure(ours) - figure(theirs) on drawn sentences, sample by sample [B].

    `ours` and `theirs` [S, N, K] are what each of S paired runs counts in each of N sentences. All runs of a sample see
    the same sentences, so that sums over them are products with how often each was drawn.
    """
    often = np.stack([np.bincount(row, minlength=ours.shape[1]) for row in rows]).astype(np.float64)  # [B, N]
    each = [figure(often @ one) - figure(often @ two) for one, two in zip(ours, theirs, strict=True)]
    return np.take_along_axis(np.stack(each, 1), pairs, 1).mean(1)


def bootstrap_difference(
    ours: np.ndarray, theirs: np.ndarray, figure: Figure, samples: int = SAMPLES, level: float = LEVEL
) -> Estimate:
    """The mean difference of S paired runs, and its percentile interval over sentences and pairs of runs."""
    found = resampled_differences(ours, theirs, figure, *draw_samples(ours.shape[1], len(ours), samples))
    low, high = np.percentile(found, [50 * (1 - level), 50 * (1 + level)])
    mean = float((figure(ours.sum(1)) - figure(theirs.sum(1))).mean())
    return Estimate(mean, float(low), float(high), len(ours))
