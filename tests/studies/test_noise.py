"""The noise floor against scipy's chi-squared intervals and simulated coverage; what a plan promises against the
noncentral t."""

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.experiments.looks import Looks
from splitstep.experiments.noise import Floor, in_floors, noise_floor, outlook
from splitstep.experiments.statistics import Estimate, jointly

DRAWS = 4000
MISSED = 3 * math.sqrt(0.05 * 0.95 / DRAWS)  # three standard errors of a share of 5%


def by_seed(values: np.ndarray) -> dict[int, float]:
    return dict(enumerate(values.tolist()))


@pytest.mark.parametrize("n", [3, 8, 20])
def test_the_floor_is_the_deviation_of_differences_with_its_chi_squared_interval(n: int) -> None:
    random = np.random.default_rng(n)
    first, again = random.normal(size=(2, n))
    s = np.std(again - first, ddof=1)
    low, high = (s * math.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in (0.975, 0.025))
    assert noise_floor(by_seed(first), by_seed(again)) == pytest.approx((s, low, high, n, True), rel=1e-9)
    alone = noise_floor(by_seed(first))
    assert alone is not None
    assert alone.sd == pytest.approx(math.sqrt(2) * np.std(first, ddof=1), rel=1e-12)
    assert (alone.n, alone.paired) == (n, False)


def test_only_seeds_that_both_have_count_and_too_few_or_equal_ones_show_nothing() -> None:
    found = noise_floor({0: 1.0, 1: 2.0, 2: 5.0, 3: 0.0}, {0: 1.0, 1: 3.0, 2: 7.0, 9: 4.0})
    assert found is not None
    assert (found.sd, found.n) == (pytest.approx(1.0), 3)
    assert noise_floor({0: 1.0, 1: 2.0}, {0: 1.0, 1: 3.0}) is None
    assert noise_floor({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.1, 1: 2.1, 2: 3.1}) is None
    assert noise_floor({}) is None


def test_the_band_holds_mean_differences_of_an_arm_to_itself() -> None:
    """The floor of twelve seeds, and the mean of eight others."""
    random, outside = np.random.default_rng(0), 0
    for null, other in zip(random.normal(0, 0.3, (DRAWS, 12)), random.normal(0, 0.3, (DRAWS, 8)), strict=True):
        floor = noise_floor(dict.fromkeys(range(12), 0.0), by_seed(null))
        assert floor is not None
        outside += abs(other.mean()) > floor.band(8)
    assert outside / DRAWS == pytest.approx(0.05, abs=MISSED)


def test_the_ratio_s_ends_are_those_of_two_wider_intervals() -> None:
    floor = Floor(0.5, 0.4, 0.6, 9)
    lead = Estimate(1.5, 1.0, 2.0, 6)
    wide = jointly(lead, 2)
    low, high = (0.5 * math.sqrt(8 / stats.chi2.ppf(q, 8)) for q in (1 - 0.0125, 0.0125))
    assert wide.low is not None
    assert wide.high is not None
    assert in_floors(lead, floor) == pytest.approx((3.0, wide.low / high, wide.high / low, 6), rel=1e-9)
    assert in_floors(Estimate(0.2, None, None, 2), floor) == (0.4, None, None, 2)


SPREAD = Floor(0.01, 0.006, 0.02, 8)


def power_of(size: float, seeds: int, many: int) -> float:
    """That of a one-sided test at half the level of the interval."""
    t = stats.t.ppf(1 - 0.025 / many, seeds - 1)
    return float(stats.nct.sf(t, seeds - 1, size / SPREAD.sd * math.sqrt(seeds)))


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
@pytest.mark.parametrize(("seeds", "many"), [(3, 1), (8, 1), (8, 14), (30, 3)])
def test_the_detectable_difference_has_its_power_by_the_noncentral_t(seeds: int, many: int, power: float) -> None:
    found = outlook(SPREAD, seeds, many, power=power)
    assert power_of(found.size, seeds, many) == pytest.approx(power, rel=1e-6)
    assert (found.low, found.high) == pytest.approx((0.6 * found.size, 2 * found.size))
    assert (found.seeds, found.power) == (seeds, power)


@pytest.mark.parametrize("many", [1, 3])
def test_looks_detect_less_than_fixed_seeds_and_more_than_their_last_look_alone(many: int) -> None:
    looks = Looks(many=many)
    found = outlook(SPREAD, 12, many, looks)
    assert looks.power(found.size / SPREAD.sd) == pytest.approx(0.8, abs=1e-3)
    t = 1 - looks.level / 2
    alone = stats.nct.sf(stats.t.ppf(t, 11), 11, found.size / SPREAD.sd * math.sqrt(12))
    assert alone < 0.8 < power_of(found.size, 12, many)
    assert found.seeds == 12
