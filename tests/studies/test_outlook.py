"""What a plan promises: against the noncentral t, simulated power and brute force over seeds."""

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.experiments.ladder import leads
from splitstep.experiments.looks import Looks, follow
from splitstep.experiments.noise import Floor
from splitstep.experiments.outlook import outlook

SPREAD = Floor(0.01, 0.006, 0.02, 8)
DRAWS = 1500


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
def test_looks_detect_less_than_fixed_seeds_and_more_than_their_last_look_alone(
    many: int,
) -> None:
    looks = Looks(many=many)
    found = outlook(SPREAD, 12, many, looks)
    assert looks.power(found.size / SPREAD.sd) == pytest.approx(0.8, abs=1e-3)
    t = 1 - looks.level / 2
    alone = stats.nct.sf(stats.t.ppf(t, 11), 11, found.size / SPREAD.sd * math.sqrt(12))
    assert alone < 0.8 < power_of(found.size, 12, many)
    assert found.seeds == 12


@pytest.mark.parametrize("looks", [None, Looks()], ids=["fixed", "looks"])
def test_what_a_plan_detects_is_found_as_often_as_it_says(looks: Looks | None) -> None:
    """By simulation of two arms whose seeds go together, with the true spread of their differences."""
    random = np.random.default_rng(11)
    size = outlook(SPREAD, 12, 1, looks).size
    own = random.normal(3.0, 0.05, (DRAWS, 1, 12)) + random.normal(0, SPREAD.sd / math.sqrt(2), (DRAWS, 2, 12))
    found = 0
    for first, arm in own:
        lead = leads(dict(enumerate((arm - size).tolist())), dict(enumerate(first.tolist())), higher=False)
        found += follow(lead, range(12), looks or Looks((12,))).word == "ahead"
    assert found / DRAWS == pytest.approx(0.8, abs=0.05)
