"""Means, intervals and paired differences against scipy, brute force and simulated coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.studies.statistics import estimate, paired_difference

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [2, 3, 5, 30])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_is_student_s(n: int, level: float) -> None:
    values = RANDOM.normal(3, 2, n).tolist()
    found = estimate(values, level)
    low, high = stats.t.interval(level, n - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found is not None
    assert found == pytest.approx((np.mean(values), low, high, n), rel=1e-12)


def test_the_difference_is_paired_by_seed_and_over_common_seeds_only() -> None:
    ours, theirs = ({seed: float(RANDOM.normal()) for seed in range(8)} for _ in range(2))
    found = paired_difference(dict(reversed(ours.items())), theirs)
    test = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    interval = test.confidence_interval(0.95)
    mean = sum(ours[s] - theirs[s] for s in ours) / 8
    assert found == pytest.approx((mean, interval.low, interval.high, 8), rel=1e-12)
    del ours[3], theirs[5]
    common = [s for s in range(8) if s not in (3, 5)]
    found = paired_difference(ours, theirs)
    assert found is not None
    assert found.n == 6
    assert found.mean == pytest.approx(sum(ours[s] - theirs[s] for s in common) / 6)


def test_one_seed_has_no_interval_and_none_has_no_mean() -> None:
    assert estimate([0.5]) == (0.5, None, None, 1)
    assert estimate([]) is None
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert paired_difference({0: 3.0, 1: 7.0}, {0: 1.0}) == (2.0, None, None, 1)


def test_equal_values_have_an_interval_of_width_zero() -> None:
    assert estimate([0.1] * 5) == pytest.approx((0.1, 0.1, 0.1, 5))


def test_values_whose_squares_are_no_floats_have_an_interval() -> None:
    """Perplexities of runs that went wrong are such numbers."""
    found = estimate([1e200, 3e200])
    assert found == pytest.approx((2e200, 2e200 - 12.706205e200, 2e200 + 12.706205e200, 2))


@pytest.mark.parametrize("n", [3, 5])
def test_intervals_cover_the_truth_as_often_as_they_say(n: int) -> None:
    draws = np.random.default_rng(n).normal(1.0, 0.3, (4000, n))
    covered = 0
    for values in draws:
        found = estimate(values.tolist())
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    spread = math.sqrt(0.95 * 0.05 / len(draws))
    assert abs(covered / len(draws) - 0.95) < 4 * spread
