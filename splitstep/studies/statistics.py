"""Means over seeds and paired differences: Student's t intervals over seeds, bootstraps over sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
SAMPLES = 1000  # of a bootstrap, as in sacrebleu
Figure = Callable[[np.ndarray], np.ndarray]  # of sums over sentences [..., K]


class Estimate(NamedTuple):
    """The mean of n values and its interval; one value has no interval."""

    mean: float
    low: float | None
    high: float | None
    n: int


def estimate(values: Sequence[float], level: float = LEVEL) -> Estimate | None:
    """mean +- t_(n-1) s / sqrt(n), where s is the sample standard deviation; None if there are no values."""
    from scipy.special import stdtrit

    n = len(values)
    if n == 0:
        return None
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None, 1)
    s = math.hypot(*(v - mean for v in values)) / math.sqrt(n - 1)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * s / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


def paired_difference(values: Mapping[int, float], reference: Mapping[int, float]) -> Estimate | None:
    """values - reference, seed by seed, over the seeds that both have."""
    return estimate([v - reference[seed] for seed, v in sorted(values.items()) if seed in reference])


def draw_sentences(sentences: int, samples: int = SAMPLES) -> np.ndarray:
    """The sentences of each sample [B, N], drawn with replacement."""
    return np.random.default_rng(12345).integers(sentences, size=(samples, sentences))


def resampled_differences(ours: np.ndarray, theirs: np.ndarray, figure: Figure, rows: np.ndarray) -> np.ndarray:
    """figure(ours) - figure(theirs) of each pair of runs on the drawn sentences, sample by sample [B, S].

    `ours` and `theirs` [S, N, K] are the counts of S paired runs in each of N sentences. All runs of a sample have the
    same sentences, so sums over a sample are products with how often each sentence was drawn.
    """
    often = np.stack([np.bincount(row, minlength=ours.shape[1]) for row in rows]).astype(np.float64)  # [B, N]
    return np.stack([figure(often @ one) - figure(often @ two) for one, two in zip(ours, theirs, strict=True)], 1)


def mean_difference(found: np.ndarray, resampled: np.ndarray) -> Estimate:
    """The mean of the differences of S pairs of runs [S] and its interval over sentences and seeds.

    Half its width is the root of the sum of two squares: Student's t over the S differences, and 1.96 times the
    standard deviation of their mean on resampled sentences [B, S]. Resampling seeds as well would give an interval that
    contains the truth in only about 70% of the cases with three seeds: so few show too little of their spread. With one
    pair the interval is that of the percentiles over sentences.
    """
    from scipy.special import ndtri

    seeds, means = estimate(found.tolist()), resampled.mean(1)
    assert seeds is not None
    if seeds.high is None:
        low, high = np.percentile(means, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
        return Estimate(seeds.mean, float(low), float(high), 1)
    half = math.hypot(seeds.high - seeds.mean, float(ndtri((1 + LEVEL) / 2) * means.std(ddof=1)))
    return Estimate(seeds.mean, seeds.mean - half, seeds.mean + half, seeds.n)


def two_sided_p(difference: float, resampled: np.ndarray) -> float:
    """The share of resampled differences [B] that are at least as far from their mean as the difference from zero."""
    far = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((1 + far.sum()) / (1 + len(far)))
