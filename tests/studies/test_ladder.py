"""Trends and multipliers over budgets: figures worked out by hand, and each word's rule."""

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.experiments.ladder import Ladder, Trend, leads, multiplier, trend
from splitstep.experiments.looks import Looks

BUDGETS = (1, 3, 9)
JITTER = np.random.default_rng(0).normal(0, 1, 8)
JITTER = ((JITTER - JITTER.mean()) / JITTER.std(ddof=1)).tolist()  # mean 0, standard deviation 1


def test_leads_are_positive_where_the_arm_is_better() -> None:
    arm, first = {0: 1.5, 1: 2.0, 2: 9.0}, {0: 1.0, 1: 4.0, 5: 0.0}
    assert leads(arm, first, higher=True) == {0: 0.5, 1: -2.0}
    assert leads(arm, first, higher=False) == {0: -0.5, 1: 2.0}


def steady(means: tuple[float, ...], apart: float = 0.001) -> list[dict[int, float]]:
    """Leads of eight seeds with these means at each budget; the seeds' own differences are the same at all of them,
    but for a small part that makes slopes differ."""
    return [
        {seed: mean + 0.01 * one + apart * k * JITTER[seed - 1] for seed, one in enumerate(JITTER)}
        for k, mean in enumerate(means)
    ]


@pytest.mark.parametrize(("means", "margin", "word"), [
    ((0.020, 0.030, 0.040), None, "grows"),
    ((-0.020, -0.030, -0.040), None, "grows"),  # the first arm's lead
    ((0.040, 0.030, 0.021), None, "fades"),
    ((-0.040, -0.030, -0.020), 1.0, "fades"),
    ((0.040, 0.010, 0.001), None, "fades"),  # to nothing that is shown
    ((0.001, 0.011, 0.021), None, "moves"),
    ((0.001, -0.009, -0.019), None, "moves"),
    ((0.040, 0.010, -0.040), None, "turns"),
    ((-0.040, 0.010, 0.040), None, "turns"),
    ((0.030, 0.030, 0.030), 0.01, "holds"),
    ((0.030, 0.030, 0.030), None, "open"),
    ((0.030, 0.030, 0.030), 0.001, "open"),
])  # fmt: skip
def test_each_word(means: tuple[float, ...], margin: float | None, word: str) -> None:
    found = trend(BUDGETS, steady(means), margin=margin)
    assert found.word == word
    assert [one.mean for one in found.means] == pytest.approx(means)


def test_the_slope_is_per_tripling_and_its_interval_is_over_seeds() -> None:
    """Three ladders by hand: changes of 0.02, -0.01 and 0.05 over two triplings, and one in the middle that no slope
    of three equally spaced budgets sees."""
    found = trend(
        BUDGETS,
        [{0: 0.01, 1: 0.03, 2: 0.0}, {0: 0.5, 1: 0.0, 2: 0.1}, {0: 0.03, 1: 0.02, 2: 0.05}],
    )
    low, high = stats.t.interval(0.95, 2, 0.01, stats.sem([0.01, -0.005, 0.025]))
    assert found.slope == pytest.approx((0.01, low, high, 3))
    uneven = trend((1, 3, 27), [{0: 0.0}, {0: 1.0}, {0: 2.0}])
    assert uneven.slope == pytest.approx((np.polyfit([0, 1, 3], [0, 1, 2], 1)[0], None, None, 1))


def test_intervals_are_wider_for_more_arms_and_for_looks() -> None:
    plain, many, looks = (
        trend(BUDGETS, steady((0, 0, 0)), many, at=at).slope for many, at in ((1, ()), (14, ()), (1, Looks().at))
    )
    assert plain is not None
    assert many is not None
    assert looks is not None
    ratio = [(one.high - one.mean) / (plain.high - plain.mean) for one in (many, looks)]
    at = stats.t(7)
    assert ratio == pytest.approx([at.isf(0.025 / 14) / at.isf(0.025), at.isf(Looks().level / 2) / at.isf(0.025)])


def test_only_seeds_with_all_budgets_count_and_few_show_nothing() -> None:
    found = trend(BUDGETS, [{0: 1.0, 1: 2.0, 2: 5.0}, {0: 1.0, 1: 2.0}, {0: 1.0, 1: 4.0, 2: 5.0}], margin=99.0)
    assert found == ("open", (0.5, None, None, 2), ((1.5, None, None, 2), (1.5, None, None, 2), (2.5, None, None, 2)))
    assert trend(BUDGETS, [{0: 1.0}, {1: 1.0}, {0: 2.0}]) == Trend("open", None, ())
    assert trend((1,), steady((0.1,)))[:2] == ("open", None)


TOKENS = (1e6, 3e6, 9e6)


def test_the_multiplier_of_three_ladders_by_hand() -> None:
    """The better arm reaches 2.5 at 3M, 2.35 halfway from 3M to 9M and 2.75 halfway from 1M to 3M in log tokens."""
    better = Ladder(TOKENS, {0: (3.0, 2.5, 2.2), 1: (3.0, 2.5, 2.2), 2: (3.0, 2.5, 2.2)})
    other = Ladder(TOKENS, {0: (3.2, 2.8, 2.5), 1: (3.2, 2.8, 2.35), 2: (3.2, 2.8, 2.75), 7: (3.0, 2.0, 1.0)})
    found = multiplier(better, other)
    assert found.by_seed == pytest.approx({0: 3.0, 1: math.sqrt(3), 2: 3 * math.sqrt(3)})
    low, high = (
        math.exp(end) for end in stats.t.interval(0.95, 2, math.log(3), stats.sem(np.log(3) * np.array([1, 0.5, 1.5])))
    )
    assert found.mean == pytest.approx((3.0, low, high, 3))
    assert (found.unit, found.reason) == ("tokens", "")


def test_where_costs_differ_the_multiplier_is_of_flops() -> None:
    better = Ladder(TOKENS, {0: (3.0, 2.5, 2.2)}, cost=4e6)
    other = Ladder(TOKENS, {0: (3.2, 2.8, 2.5)}, cost=2e6)
    found = multiplier(better, other)
    assert (found.by_seed, found.unit) == ({0: pytest.approx(1.5)}, "FLOPs")
    assert found.mean == (pytest.approx(1.5), None, None, 1)


def test_costs_that_are_nearly_equal_are_the_same() -> None:
    better, other = Ladder(TOKENS, {0: (3.0, 2.5, 2.2)}, 1000), Ladder(TOKENS, {0: (3.2, 2.8, 2.5)}, 1004)
    assert multiplier(better, other)[::2] == ({0: pytest.approx(3.0, rel=1e-12)}, "tokens")


@pytest.mark.parametrize(("own", "goal", "why"), [
    ((3.0, 2.5, 2.2), 3.1, "the loss is reached below the smallest budget"),
    ((3.0, 2.5, 2.2), 2.1, "the loss is not reached"),
    ((3.0, 3.1, 2.2), 2.5, "the losses do not fall"),
    ((3.0, 2.5, 2.5), 2.7, "the losses do not fall"),
    ((3.0, math.inf, 2.2), 2.5, "a run diverged"),
    ((3.0, 2.5, 2.2), math.nan, "a run diverged"),
])  # fmt: skip
def test_without_a_place_there_is_no_multiplier_but_a_reason(own: tuple, goal: float, why: str) -> None:
    better = Ladder(TOKENS, {0: (3.0, 2.5, 2.2), 4: own})
    found = multiplier(better, Ladder(TOKENS, {0: (9, 9, 2.5), 4: (9, 9, goal)}))
    assert found == ({0: pytest.approx(3.0)}, None, "tokens", f"{why} with seed 4")


def test_the_ends_of_a_ladder_belong_to_it() -> None:
    better = Ladder(TOKENS, {0: (3.0, 2.5, 2.2)})
    assert [multiplier(better, Ladder(TOKENS, {0: (9, 9, goal)})).by_seed[0] for goal in (3.0, 2.2)] == pytest.approx(
        [9.0, 1.0]
    )
    assert multiplier(Ladder((1e6,), {0: (2.5,)}), Ladder((1e6,), {0: (2.5,)})).by_seed == {0: pytest.approx(1.0)}
    assert multiplier(better, Ladder(TOKENS, {1: (9, 9, 2.5)})).reason == "no seed has both ladders"
