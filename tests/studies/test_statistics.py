"""Means, intervals and paired differences against scipy, brute force and simulated coverage."""

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.experiments.statistics import Bounds, Estimate, detectable, estimate, jointly, paired_difference

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("n", [3, 5, 30])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_interval_is_student_s(n: int, level: float) -> None:
    values = RANDOM.normal(3, 2, n).tolist()
    found = estimate(values, level)
    low, high = stats.t.interval(level, n - 1, loc=np.mean(values), scale=stats.sem(values))
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
    assert found.n == 6
    assert found.mean == pytest.approx(sum(ours[s] - theirs[s] for s in common) / 6)


@pytest.mark.parametrize(("values", "lacks"), [
    ([0.5], "one seed"),
    ([0.1, 0.3], "too few seeds"),
    ([0.1] * 5, "too few seeds: all equal"),
    ([0.7 - 0.6, 0.4 - 0.3, 0.9 - 0.8], "too few seeds: all equal"),  # up to rounding, as of accuracies
    ([0.1, 0.1, 0.1 + 1e-9], ""),
])  # fmt: skip
def test_two_values_or_equal_ones_have_no_interval(values: list[float], lacks: str) -> None:
    found = estimate(values)
    assert (found.n, found.low is None, found.high is None, found.lacks) == (
        len(values),
        lacks != "",
        lacks != "",
        lacks,
    )


def test_without_seeds_there_is_no_mean() -> None:
    assert estimate([]) is None
    assert paired_difference({0: 1.0}, {1: 1.0}) is None
    assert paired_difference({0: 3.0, 1: 7.0}, {0: 1.0}) == (2.0, None, None, 1)
    assert detectable(Estimate(0.1, None, None, 1)) is None


def test_values_whose_squares_are_no_floats_have_an_interval() -> None:
    """Perplexities of runs that went wrong are such numbers."""
    found = estimate([1e200, 2e200, 3e200])
    half = 4.30265273e200 / 3**0.5
    assert found == pytest.approx((2e200, 2e200 - half, 2e200 + half, 3))


@pytest.mark.parametrize("truth", [0.5, 0.97, 0.999])
def test_intervals_of_accuracies_stay_in_their_bounds_and_cover_as_often(truth: float) -> None:
    """Accuracies of 1,000 examples, with a spread over seeds: near the bound intervals of Student's t leave it."""
    random, bounds = np.random.default_rng(1), Bounds(0.0, 1.0)
    draws = random.binomial(1000, random.beta(200 * truth, 200 * (1 - truth), (1500, 5))) / 1000
    covered, cut, found = 0, 0, 0
    for values in draws.tolist():
        inside, student = estimate(values, bounds=bounds), estimate(values)
        if inside.low is None or inside.high is None or student.low is None or student.high is None:
            continue
        found += 1
        assert 0 <= inside.low <= inside.mean <= inside.high <= 1
        hit = inside.low <= truth <= inside.high
        assert hit == (student.low <= truth <= student.high)
        covered, cut = covered + hit, cut + (student.high > 1)
    assert (cut > 0) == (truth > 0.9)
    if truth < 0.99:  # accuracies near 1 are too skewed for any five of them
        assert covered / found > 0.9


def test_differences_of_bounded_metrics_have_bounds_of_their_own() -> None:
    found = paired_difference({0: 1.0, 1: 1.0, 2: 0.0}, {0: 0.0, 1: 0.1, 2: 0.3}, Bounds(0.0, 1.0))
    assert (found.low, found.high) == (-1.0, 1.0)
    assert paired_difference({0: 9.0, 1: 8.0, 2: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0}, Bounds(0.0)) == paired_difference(
        {0: 9.0, 1: 8.0, 2: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0}
    )


@pytest.mark.parametrize(("many", "n"), [(1, 3), (1, 5), (3, 4)])
def test_intervals_hold_all_at_once_as_often_as_they_say(many: int, n: int) -> None:
    draws = np.random.default_rng(many).normal(0.0, 1.0, (3000, many, n))
    right = 0
    for rows in draws.tolist():
        joint = [jointly(found, many) for values in rows if (found := estimate(values))]
        right += all(one.low is not None and one.high is not None and one.low <= 0 <= one.high for one in joint)
    spread = math.sqrt(0.95 * 0.05 / len(draws))
    assert right / len(draws) == pytest.approx(0.95, abs=4 * spread)


@pytest.mark.parametrize(("n", "many"), [(3, 1), (5, 3)])
def test_a_detectable_difference_is_seen_four_times_in_five(n: int, many: int) -> None:
    """By simulation: seeds whose differences have the deviation s, and the true mean that `detectable` gives for s."""
    s = 0.3
    half = stats.t.ppf(0.975, n - 1) * s / math.sqrt(n)
    size = detectable(Estimate(0.0, -half, half, n), many)
    seen = 0
    for values in np.random.default_rng(7).normal(size, s, (2500, n)).tolist():
        found = estimate(values)
        joint = jointly(found, many)
        seen += joint.low > 0
    assert seen / 2500 == pytest.approx(0.8, abs=4 * math.sqrt(0.8 * 0.2 / 2500))


def test_bounds_neither_narrow_nor_widen_a_verdict() -> None:
    """What was cut at a bound is not what the spread says, and no joint interval leaves the bounds."""
    accuracy = Bounds(0.0, 1.0)
    wild = paired_difference({0: 0.9, 1: 0.99, 2: 0.95}, {0: 0.05, 1: 0.03, 2: 0.3}, accuracy)
    plain = paired_difference({0: 0.9, 1: 0.99, 2: 0.95}, {0: 0.05, 1: 0.03, 2: 0.3})
    assert wild.high == 1.0
    joint = jointly(wild, 5, accuracy)
    assert joint.high == 1.0
    assert joint.low == pytest.approx(jointly(plain, 5).low)
    assert detectable(wild) == pytest.approx(detectable(plain))
