"""Means over seeds, paired differences, fitted slopes: Student's t intervals over seeds, bootstraps over sentences."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

LEVEL = 0.95
SAMPLES = 1000  # of a bootstrap, as in sacrebleu
POWER = 0.8  # the probability with which a "detectable" difference is found
FEWEST = 3  # values with an interval: two may be close by chance
ROUNDING = 1e-12  # relative: values closer than this are equal
Figure = Callable[[np.ndarray], np.ndarray]  # of sums over sentences [..., K]


class Bounds(NamedTuple):
    """The least and the greatest value that a metric can have, where it has one."""

    least: float | None = None
    greatest: float | None = None

    @property
    def of_differences(self) -> "Bounds":
        if self.least is None or self.greatest is None:
            return Bounds()
        return Bounds(self.least - self.greatest, self.greatest - self.least)


UNBOUNDED = Bounds()


class Estimate(NamedTuple):
    """The mean of n values and its interval, if there are enough values for one."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def lacks(self) -> str:
        """Why there is no interval; empty if there is one."""
        if self.low is not None:
            return ""
        return {1: "one seed", 2: "too few seeds"}.get(self.n, "too few seeds: all equal")

    @property
    def sign(self) -> int:
        """1 or -1 if the interval is on one side of zero, else 0."""
        return 0 if self.low is None or self.high is None else (self.low > 0) - (self.high < 0)

    @property
    def turned(self) -> "Estimate":
        """The estimate of minus the value."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return Estimate(-self.mean, low, high, self.n)


def estimate(values: Sequence[float], level: float = LEVEL, bounds: Bounds = UNBOUNDED) -> Estimate | None:
    """mean +- t_(n-1) s / sqrt(n), where s is the sample standard deviation; None if there are no values.

    Fewer than FEWEST values, and values that are all equal, have no interval: they do not show their spread. The
    interval ends at the bounds of the metric. Clipping does not reduce coverage: the true mean is never outside them.
    """
    if not values:
        return None
    n, mean = len(values), math.fsum(values) / len(values)
    half = student_half(values, level)
    if half is None:
        return Estimate(mean, None, None, n)
    return Estimate(mean, *within(mean, half, bounds), n)


def within(mean: float, half: float, bounds: Bounds) -> tuple[float, float]:
    """mean - half and mean + half, or the bounds if these are nearer."""
    low = mean - half if bounds.least is None else max(mean - half, bounds.least)
    return low, mean + half if bounds.greatest is None else min(mean + half, bounds.greatest)


def student_half(values: Sequence[float], level: float = LEVEL) -> float | None:
    """t_(n-1) s / sqrt(n), half the width of Student's interval; None if the values do not show their spread."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n < FEWEST or max(values) - min(values) <= ROUNDING * max(map(abs, values)):
        return None
    s = math.hypot(*(v - mean for v in values)) / math.sqrt(n - 1)
    return student_t(n, level) * s / math.sqrt(n)


def student_t(n: int, level: float) -> float:
    """The quantile of Student's t of n - 1 degrees of freedom that leaves (1 - level) / 2 above it."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + level) / 2))


def paired_difference(
    values: Mapping[int, float], reference: Mapping[int, float], bounds: Bounds = UNBOUNDED
) -> Estimate | None:
    """values - reference, seed by seed, over the seeds that both have; the bounds are those of the values."""
    found = [v - reference[seed] for seed, v in sorted(values.items()) if seed in reference]
    return estimate(found, bounds=bounds.of_differences)


def half_width(found: Estimate) -> float | None:
    """Half the width of an interval before it was cut at a bound: that of its longer side."""
    if found.low is None or found.high is None:
        return None
    return max(found.mean - found.low, found.high - found.mean)


def jointly(found: Estimate, many: int, bounds: Bounds = UNBOUNDED) -> Estimate:
    """One of several differences, with an interval so wide that all of them hold at once in 95% of the cases.

    This is Bonferroni's correction: each is a Student's t interval of level 1 - 0.05 / many. The bounds are those of
    the values.
    """
    half = half_width(found)
    if half is None:
        return found
    half *= student_t(found.n, 1 - (1 - LEVEL) / many) / student_t(found.n, LEVEL)
    return Estimate(found.mean, *within(found.mean, half, bounds.of_differences), found.n)


def detectable(found: Estimate, many: int = 1, power: float = POWER) -> float | None:
    """The true difference that such an interval excludes zero for with this probability, by the spread that was found.

    If differences of n seeds have mean d and standard deviation s, then sqrt(n) times their mean over their sample
    deviation has the noncentral t distribution of n - 1 degrees of freedom and noncentrality d sqrt(n) / s. With the d
    that is returned it exceeds Student's quantile with the given probability. `many`: as for `jointly`.
    """
    half = half_width(found)
    if half is None:
        return None
    return noncentrality(found.n, 1 - (1 - LEVEL) / many, power) * half / student_t(found.n, LEVEL)


def noncentrality(n: int, level: float, power: float) -> float:
    """The noncentrality with which t of n values is above Student's quantile with this probability."""
    from scipy.special import nctdtrinc

    return float(nctdtrinc(n - 1, 1 - power, student_t(n, level)))


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
    pair the interval is that of the percentiles over sentences; two pairs have none, nor have pairs whose differences
    are all equal: sentences alone would make a certainty of seeds that do not show their spread.
    """
    from scipy.special import ndtri

    n, mean, means = len(found), float(found.mean()), resampled.mean(1)
    if n == 1:
        low, high = np.percentile(means, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
        return Estimate(mean, float(low), float(high), 1)
    seeds = student_half(found.tolist())
    if seeds is None:
        return Estimate(mean, None, None, n)
    half = math.hypot(seeds, float(ndtri((1 + LEVEL) / 2) * means.std(ddof=1)))
    return Estimate(mean, mean - half, mean + half, n)


def two_sided_p(difference: float, resampled: np.ndarray) -> float:
    """The share of resampled differences [B] that are at least as far from their mean as the difference from zero."""
    far = np.abs(resampled - resampled.mean()) >= abs(difference)
    return float((1 + far.sum()) / (1 + len(far)))


def share_interval(share: float, n: int, level: float = LEVEL) -> Estimate:
    """A share of n independent cases and Wilson's interval, which holds near 0 and 1 as well."""
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Estimate(share, max(0.0, centre - half), min(1.0, centre + half), n)


class Slope(NamedTuple):
    """A slope and its 95% interval: Student's over the seeds, or that of one regression over all points."""

    value: float
    low: float | None
    high: float | None
    by: Literal["seeds", "regression"]
    n: int  # seeds, or points

    def text(self) -> str:
        """The slope with its interval, if it has one: 0.98 [0.91, 1.05]."""
        value, *ends = (f"{round(x, 2) + 0.0:.2f}" for x in (self.value, self.low, self.high) if x is not None)
        return f"{value} [{', '.join(ends)}]" if ends else value


def fitted_slope(points: Iterable[tuple[int, float, float]]) -> Slope | None:
    """The slope of log y against log h over points (seed, h, y), of every seed that has at least two; None if there is
    none."""
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for seed, h, y in points:
        if h > 0 and 0 < y < math.inf:
            by_seed.setdefault(seed, []).append((math.log(h), math.log(y)))
    usable = [own for own in by_seed.values() if len(own) > 1]
    if not usable:
        return None
    slopes = [regression(own)[0] for own in usable]
    if len(slopes) >= FEWEST and (over := estimate(slopes)) is not None:
        return Slope(over.mean, over.low, over.high, "seeds", len(slopes))
    every = [point for own in usable for point in own]
    value, error = regression(every)
    half = None if error is None else error * student_t(len(every) - 1, LEVEL)
    ends = (None, None) if half is None else (value - half, value + half)
    return Slope(value, *ends, "regression", len(every))


def regression(points: Sequence[tuple[float, float]]) -> tuple[float, float | None]:
    """The slope by least squares and its standard error, which needs three points or more."""
    n = len(points)
    mx, my = (math.fsum(column) / n for column in zip(*points, strict=True))
    sxx = math.fsum((x - mx) ** 2 for x, _ in points)
    slope = math.fsum((x - mx) * (y - my) for x, y in points) / sxx
    if n < 3:
        return slope, None
    left = math.fsum((y - my - slope * (x - mx)) ** 2 for x, y in points)
    return slope, math.sqrt(left / (n - 2) / sxx)
