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


LOST = {"inf": math.inf, "nan": math.nan}
SEARCHES: dict[str, tuple] = {  # curves, best rates, arms at an end, rates that are added in each round
    "a best rate inside the ladder ends the search": (
        {"lie": valley(3e-3), "mine": valley(2.5e-3)}, {"lie": 3e-3, "mine": 3e-3}, (), [],
    ),
    "one at an end adds one there for all arms": (
        {"lie": valley(3e-3), "high": valley(9e-3), "low": valley(1e-3)},
        {"lie": 3e-3, "high": 9e-3, "low": 1e-3}, (), [(3.33e-4, 2.7e-2)],
    ),
    "it adds twice at most and then says so": (
        {"lie": valley(3e-3), "far": valley(10.0)}, {"lie": 3e-3, "far": 8.1e-2}, ("far",), [(2.7e-2,), (8.1e-2,)],
    ),
    "the first arm may be the one at the end": (
        {"lie": valley(1e-9), "mine": valley(3e-3)}, {"lie": 1.11e-4, "mine": 3e-3}, ("lie",),
        [(3.33e-4,), (1.11e-4,)],
    ),
    "an end that later has a neighbour is none": (
        {"high": valley(9e-3), "higher": valley(3e-2)}, {"high": 9e-3, "higher": 2.7e-2}, (), [(2.7e-2,), (8.1e-2,)],
    ),
    "of equally good rates the smallest is taken": (
        {"flat": lambda rate: 2.0 if rate > 1e-3 else 3.0}, {"flat": 3e-3}, (), [],
    ),
    **{f"runs that diverged lose: {name}": (
        {"wild": lambda rate, lost=lost: valley(1e-3)(rate) if rate < 2e-3 else lost}, {"wild": 1e-3}, (), [(3.33e-4,)],
    ) for name, lost in LOST.items()},
    **{f"where all diverged lower rates are tried: {name}": (
        {"lie": valley(3e-3), "dead": lambda rate, lost=lost: lost}, {"lie": 3e-3, "dead": 1.11e-4}, ("dead",),
        [(3.33e-4,), (1.11e-4,)],
    ) for name, lost in LOST.items()},
}  # fmt: skip


@pytest.mark.parametrize("case", SEARCHES)
def test_what_is_tried_and_which_rate_is_best(case: str) -> None:
    curves, best, edge, added = SEARCHES[case]
    found, rounds = tuned(curves)
    assert found == ((), best, edge)
    assert rounds == [[(arm, rate) for arm in curves for rate in rates] for rates in (RATES, *added)]


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
