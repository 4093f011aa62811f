"""Which rates are tried: against losses that are known functions of the rate."""

import math
from collections.abc import Callable

import pytest

from splitstep.experiments.tuning import Tuned, best_two, choose, tune

RATES = (1e-3, 3e-3, 9e-3)


def valley(best: float) -> Callable[[float], float]:
    """A loss that is least at one rate."""
    return lambda rate: math.log(rate / best) ** 2


def tuned(curves: dict[str, Callable[[float], float]], rates: tuple[float, ...] = RATES) -> tuple[Tuned, list[list]]:
    """What is found when all that is missing is run, and what that was, round by round."""
    losses, rounds = dict[tuple[str, float], float](), list[list]()
    while (found := tune(losses, list(curves), rates)).missing:
        assert found.best == {}
        assert len(rounds) < 9
        rounds.append(list(found.missing))
        losses |= {(arm, rate): curves[arm](rate) for arm, rate in found.missing}
    return found, rounds


def test_a_best_rate_inside_the_ladder_ends_the_search() -> None:
    found, rounds = tuned({"lie": valley(3e-3), "mine": valley(2.5e-3)})
    assert found == ((), {"lie": 3e-3, "mine": 3e-3}, ())
    assert rounds == [[(arm, rate) for arm in ("lie", "mine") for rate in RATES]]


def test_a_best_rate_at_an_end_adds_one_there_for_all_arms() -> None:
    found, rounds = tuned({"lie": valley(3e-3), "high": valley(9e-3), "low": valley(1e-3)})
    assert found == ((), {"lie": 3e-3, "high": 9e-3, "low": 1e-3}, ())
    assert rounds[1:] == [[(arm, rate) for arm in ("lie", "high", "low") for rate in (3.33e-4, 2.7e-2)]]


def test_it_adds_twice_at_most_and_then_says_so() -> None:
    found, rounds = tuned({"lie": valley(3e-3), "far": valley(10.0)})
    assert (found.best, found.at_edge) == ({"lie": 3e-3, "far": 8.1e-2}, ("far",))
    assert rounds[1:] == [[("lie", rate), ("far", rate)] for rate in (2.7e-2, 8.1e-2)]


def test_the_first_arm_may_be_the_one_at_the_end() -> None:
    assert tuned({"lie": valley(1e-9), "mine": valley(3e-3)})[0].at_edge == ("lie",)


def test_an_end_of_the_first_ladder_that_later_has_a_neighbour_is_no_end() -> None:
    found, _ = tuned({"high": valley(9e-3), "higher": valley(3e-2)})
    assert (found.best, found.at_edge) == ({"high": 9e-3, "higher": 2.7e-2}, ())


@pytest.mark.parametrize("lost", [math.inf, math.nan])
def test_runs_that_diverged_lose_to_all_others_and_lower_rates_are_tried(lost: float) -> None:
    found, _ = tuned({"wild": lambda rate: valley(1e-3)(rate) if rate < 2e-3 else lost})
    assert (found.best, found.at_edge) == ({"wild": 1e-3}, ())
    found, rounds = tuned({"lie": valley(3e-3), "dead": lambda rate: lost})
    assert (found.best, found.at_edge) == ({"lie": 3e-3, "dead": 1.11e-4}, ("dead",))
    assert rounds[1:] == [[("lie", rate), ("dead", rate)] for rate in (3.33e-4, 1.11e-4)]


def test_of_equally_good_rates_the_smallest_is_taken() -> None:
    assert tuned({"flat": lambda rate: 2.0 if rate > 1e-3 else 3.0})[0].best == {"flat": 3e-3}


def test_one_rate_is_no_ladder() -> None:
    assert tuned({"lie": valley(1.0), "mine": valley(1e-9)}, (3e-3,)) == (
        ((), {"lie": 3e-3, "mine": 3e-3}, ()),
        [[("lie", 3e-3), ("mine", 3e-3)]],
    )


def test_a_larger_budget_tries_the_two_best_rates_of_the_one_before() -> None:
    losses = {("lie", rate): valley(2.9e-3)(rate) for rate in RATES}
    losses |= {("dead", rate): math.nan for rate in RATES} | {("wild", 1e-3): 5.0, ("wild", 3e-3): math.inf}
    two = best_two(losses, ["lie", "dead", "wild"])
    assert two == {"lie": (1e-3, 3e-3), "dead": (1e-3, 3e-3), "wild": (1e-3, 3e-3)}
    larger = {("lie", 1e-3): 1.0, ("lie", 3e-3): 2.0, ("dead", 1e-3): 1.0}
    assert choose(larger, two).missing == (("dead", 3e-3), ("wild", 1e-3), ("wild", 3e-3))
    done = larger | {("dead", 3e-3): 0.5, ("wild", 1e-3): 1.0, ("wild", 3e-3): 1.0}
    assert choose(done, two) == ((), {"lie": 1e-3, "dead": 3e-3, "wild": 1e-3}, ())
