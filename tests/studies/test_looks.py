"""Several looks at the same seeds: their level by simulation, their power by the noncentral t, and what they decide."""

import math

import numpy as np
import pytest
from scipy import stats

from splitstep.experiments.looks import Looks, follow, survival
from splitstep.experiments.statistics import Bounds, estimate

DRAWS = 20_000


def beyond(at: tuple[int, ...], bounds: tuple[float, ...], size: float) -> float:
    """The share of draws in which some |t| is beyond its bound."""
    draws = np.random.default_rng(3).normal(size, 1.0, (DRAWS, at[-1]))
    hit = np.zeros(DRAWS, bool)
    for n, bound in zip(at, bounds, strict=True):
        hit |= np.abs(draws[:, :n].mean(1)) * math.sqrt(n) > bound * draws[:, :n].std(1, ddof=1)
    return float(hit.mean())


def three_errors(share: float) -> float:
    return 3 * math.sqrt(share * (1 - share) / DRAWS)


@pytest.mark.parametrize(
    "looks", [Looks(), Looks(many=3), Looks((3, 4)), Looks((5, 9, 20), 2), Looks((3, 60), 2)], ids=str
)
def test_all_looks_together_have_the_error_of_one(looks: Looks) -> None:
    error = 0.05 / looks.many
    assert 1 - survival(looks.at, looks.bounds) == pytest.approx(error, rel=1e-3)
    assert beyond(looks.at, looks.bounds, 0.0) == pytest.approx(error, abs=three_errors(error))


@pytest.mark.parametrize("many", [1, 14])
def test_one_look_is_bonferroni_s_interval(many: int) -> None:
    assert Looks((8,), many).level == pytest.approx(0.05 / many, rel=1e-12)
    assert Looks((8,), many).bounds == pytest.approx([stats.t.ppf(1 - 0.025 / many, 7)], rel=1e-9)


@pytest.mark.parametrize(("n", "size"), [(3, 2.0), (5, 0.5), (8, 1.0), (12, 1.2)])
def test_the_power_of_one_look_is_that_of_the_noncentral_t(n: int, size: float) -> None:
    bound = Looks((n,)).bounds[0]
    exact = stats.nct.sf(bound, n - 1, size * math.sqrt(n)) + stats.nct.cdf(-bound, n - 1, size * math.sqrt(n))
    assert Looks((n,)).power(size) == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize("size", [0.5, 1.0, 1.5])
def test_the_power_of_several_looks_is_that_of_simulations(size: float) -> None:
    power = Looks().power(size)
    assert beyond(Looks().at, Looks().bounds, size) == pytest.approx(power, abs=three_errors(power))


def test_looks_are_refused_in_one_line() -> None:
    for at in ((), (2, 4), (4, 4), (6, 4)):
        with pytest.raises(ValueError, match=r"^looks need increasing numbers of seeds from 3 on, such as 4,6,8; got"):
            Looks(at)


def brute_force(leads: list[float], looks: Looks, margin: float | None) -> tuple[str, int]:
    """As scipy's t-tests say it."""
    for n, bound in zip(looks.at, looks.bounds, strict=True):
        own = leads[:n]
        t = stats.ttest_1samp(own, 0.0).statistic
        if margin and all(s * stats.ttest_1samp(own, s * margin).statistic < -bound for s in (-1, 1)):
            return "inside", n
        if abs(t) > bound:
            return ("ahead" if t > 0 else "behind"), n
    return "open", looks.at[-1]


@pytest.mark.parametrize("margin", [None, 1.5])
def test_following_decides_as_t_tests_at_each_look_do(margin: float | None) -> None:
    random, words = np.random.default_rng(5), set()
    for k in range(200):
        leads = random.normal((-0.8, 0.0, 0.8)[k % 3], 1.0, 12).tolist()
        found = follow(dict(enumerate(leads)), range(12), Looks(), margin)
        assert (found.word, found.seeds) == brute_force(leads, Looks(), margin)
        assert found.lead == estimate(leads[: found.seeds], 1 - Looks().level)
        words.add(found.word)
    assert words == {"ahead", "behind", "open"} | ({"inside"} if margin else set())


AHEAD = {0: 1.0, 1: 1.1, 2: 0.9, 3: 1.0}
TURNED = {seed: -lead for seed, lead in AHEAD.items()}
NEAR = {seed: lead - 1 for seed, lead in AHEAD.items()}


@pytest.mark.parametrize(("leads", "lost", "first_lost", "word"), [
    (AHEAD, [], [], "ahead"),
    (AHEAD, [4], [], "open"),  # an arm that diverged is never ahead
    (AHEAD, [], [4], "ahead"),
    (TURNED, [4], [], "behind"),
    (TURNED, [], [4], "open"),  # nor is the first arm
    (NEAR, [], [], "inside"),
    ({seed: 0.3 + lead / 10 for seed, lead in NEAR.items()}, [], [], "inside"),  # a lead that is shown to be small
    (NEAR, [4], [], "open"),
    (NEAR, [], [4], "open"),
    ({0: 1.0}, [1, 2, 3, 4], [], "open"),
    ({}, [0, 1, 2, 3, 4], [], "open"),
])  # fmt: skip
def test_what_diverged_is_never_ahead(leads: dict, lost: list[int], first_lost: list[int], word: str) -> None:
    seeds = sorted({*leads, *lost, *first_lost})
    found = follow(leads, seeds, Looks((len(seeds),)), 0.5, lost, first_lost)
    assert (found.word, found.seeds) == (word, len(seeds))


def test_a_look_waits_for_all_of_its_seeds() -> None:
    leads = {seed: 1 + 0.1 * (seed % 3) for seed in (0, 1, 2, 4, 5)}
    assert follow(leads, range(6), Looks((4, 6))) == ("open", (pytest.approx(1.12), None, None, 5), 0)
    assert follow(leads | {3: 1.0}, range(6), Looks((4, 6)))[::2] == ("ahead", 4)
    assert follow({}, range(6), Looks()) == ("open", None, 0)


def test_seeds_have_the_order_in_which_they_were_planned() -> None:
    leads = {7: 1.0, 3: 1.1, 9: 0.9, 1: -5.0}
    assert follow(leads, (7, 3, 9, 1), Looks((3, 4)))[::2] == ("ahead", 3)
    assert follow(leads, (1, 7, 3, 9), Looks((3, 4)))[::2] == ("open", 4)


def test_intervals_of_leads_end_where_differences_of_the_metric_do() -> None:
    found = follow({0: 0.9, 1: 0.2, 2: 0.7}, range(3), Looks((3,)), bounds=Bounds(0.0, 1.0))
    free = follow({0: 0.9, 1: 0.2, 2: 0.7}, range(3), Looks((3,)))
    assert found.lead is not None
    assert free.lead is not None
    assert (found.lead.low, found.lead.high) == (free.lead.low, 1.0)
    assert free.lead.high > 1
