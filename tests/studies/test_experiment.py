"""Experiments: which setting is chosen, what the unit of a mean is, how differences pair, and the rule of claims."""

import math
from typing import Literal

import pytest
from made_up import ACCURACY, trial

from splitstep.experiments.experiment import (
    Answer,
    Experiment,
    Form,
    Observation,
    Quantity,
    Rule,
    all_of,
    decide,
    difference,
    evidence,
    opposite,
    sample,
)
from splitstep.experiments.statistics import Bounds, Estimate
from splitstep.experiments.trials import Trial, experiment_of

Run = tuple[float | None, ...]  # on valid and on test
VALID, TEST = (Quantity[Run](lambda run, place=place: run[place]) for place in (0, 1))


def observed(arm: str, setting: str, *runs: Run | None, block: str = "") -> list[Observation[Run]]:
    """Runs with a seed each; one that is None did not finish."""
    found = enumerate(runs)
    return [Observation(arm, k, (setting,), run is not None, run or (9.0, 9.0), block) for k, run in found]


GOOD = observed("a", "good", (0.2, 0.9), (0.3, 0.9))


@pytest.mark.parametrize(("other", "needed", "chosen"), [
    (observed("a", "other", (0.1, 1.0), (0.1, 1.0)), (), "good"),  # the test decides nothing
    (observed("a", "other", (0.9, 0.0), (0.1, 0.0)), (), "other"),  # the mean decides
    (observed("a", "other", (0.9, 0.0), None), (), "good"),  # but first the runs that failed
    (observed("a", "other", (0.9, 0.0), (math.inf, 0.0)), (), "good"),
    (observed("a", "other", (0.9, 0.0), (None, 0.0)), (), "good"),
    (observed("a", "other", (0.9, 0.0), (0.9, math.nan)), (TEST,), "good"),  # where the test is needed
    (observed("a", "other", (0.9, 0.0), (0.9, math.nan)), (), "other"),
    (observed("a", "other", (0.2, 0.0), (0.3, 0.0)), (), "good"),  # the first of two equal ones
])  # fmt: skip
def test_the_setting_that_is_chosen(
    other: list[Observation[Run]], needed: tuple[Quantity[Run], ...], chosen: str
) -> None:
    apart = observed("b", "best", (1.0, 1.0)) + observed("a", "best", (1.0, 1.0), block="other")
    experiment = Experiment([*apart, *GOOD, *other], VALID, needed)
    assert experiment.setting("a") == (chosen,)
    assert experiment.of("a") == (GOOD if chosen == "good" else other)
    assert experiment.setting("a", "other") == ("best",)


def test_if_less_is_better_the_smallest_mean_is_chosen() -> None:
    runs = [*GOOD, *observed("a", "other", (0.1, 0.0), (0.2, 0.0))]
    assert Experiment(runs, VALID._replace(higher=False)).setting("a") == ("other",)


def test_runs_without_a_test_figure_have_failed_in_a_comparison() -> None:
    def tried(setting: str, *values: float | None) -> list[Trial]:
        return [trial("A F", seed, value, valid=value or 0.0, setting=(setting,)) for seed, value in enumerate(values)]

    experiment = experiment_of(
        [*tried("a=1", 0.9, None), *tried("a=2", 0.1, 0.1), *tried("a=3", 0.9, math.nan)], ACCURACY
    )
    assert experiment.setting(experiment.observations[0].arm) == ("a=2",)


def test_the_unit_of_a_mean_has_the_mean_of_its_runs() -> None:
    runs = [one._replace(unit=k // 2) for k, one in enumerate(observed("a", "", *((x, x) for x in (1.0, 2, 4, 8))))]
    assert sample(runs, VALID).values == {0: 1.5, 1: 6.0}
    assert sample(runs, VALID).mean() == Estimate(3.75, None, None, 2)
    lost = [*runs, *(one._replace(unit=7) for one in observed("a", "", (math.nan, 0.0), None, (None, 0.0)))]
    assert sample(lost, VALID).values == {0: 1.5, 1: 6.0}


def test_differences_are_of_units_that_both_have_and_end_at_the_bounds() -> None:
    ours, theirs = (
        observed("a", "", (1.0, 0), (0.0, 0), (1.0, 0), (1.0, 0)),
        observed("b", "", (0.0, 0), (0.5, 0), (0, 0)),
    )
    bounded = VALID._replace(bounds=Bounds(0, 1))
    one, other = sample(ours, bounded), sample(theirs, bounded)
    found = one.minus(other)
    assert (found.mean, found.low, found.high, found.n) == (0.5, -1.0, 1.0, 3)
    assert difference("score", "a", "b", one, other) == ("score", "a", "b", (0, 1, 2), found)


@pytest.mark.parametrize(("low", "high", "n", "rule", "expected"), [
    (0.1, 0.9, 5, Rule(margin=0.5, fewest=5), "supported"),
    (0.1, 0.4, 5, Rule(margin=0.5, fewest=5), "supported"),  # above 0, however little
    (0.1, 0.9, 4, Rule(margin=0.5, fewest=5), "undecided"),
    (-0.9, -0.1, 5, Rule(margin=0.5, fewest=5), "not supported"),
    (-0.4, 0.4, 5, Rule(margin=0.5, fewest=5), "not supported"),
    (-0.6, 0.4, 5, Rule(margin=0.5, fewest=5), "undecided"),
    (-0.5, 0.5, 5, Rule(margin=0.5, fewest=5), "undecided"),
    (-0.1, 2.0, 9, Rule(margin=0.5, fewest=5), "undecided"),
    (None, None, 5, Rule(margin=0.5, fewest=5), "undecided"),
    (0.0, 0.9, 3, Rule(), "undecided"),
    (0.0, 0.9, 3, Rule(level_is="above"), "supported"),
    (-0.9, 0.0, 3, Rule(), "undecided"),
    (-0.9, 0.0, 3, Rule(level_is="below"), "not supported"),
    (10.0, 11.0, 3, Rule(10.0, level_is="below"), "undecided"),
    (10.1, 11.0, 3, Rule(10.0, level_is="below"), "supported"),
    (9.0, 10.0, 3, Rule(10.0, level_is="below"), "not supported"),
    (0.05, 0.09, 3, Rule(0.1), "not supported"),
    (0.08, 0.12, 3, Rule(0.1, margin=0.03), "not supported"),
    (0.08, 0.12, 2, Rule(0.1, margin=0.03), "undecided"),
])  # fmt: skip
def test_the_rule(low: float | None, high: float | None, n: int, rule: Rule, expected: Answer) -> None:
    found = Estimate(0.0, low, high, n)
    assert decide(found, rule) == expected
    mirrors: dict[Literal["above", "below", "neither"], Literal["above", "below", "neither"]]
    mirrors = {"above": "below", "below": "above", "neither": "neither"}
    if not rule.margin:
        mirrored = Rule(-rule.level, fewest=rule.fewest, level_is=mirrors[rule.level_is])
        assert decide(found.turned, mirrored) == opposite(expected)


def test_without_a_figure_nothing_is_decided() -> None:
    assert decide(None, Rule(fewest=0)) == "undecided"


def test_several_questions_have_one_answer() -> None:
    assert all_of(["supported", "supported"]) == "supported"
    assert all_of(["supported", "undecided"]) == "undecided"
    assert all_of(["undecided", "not supported"]) == "not supported"


@pytest.mark.parametrize(("found", "said"), [
    (None, "nothing"),
    (Estimate(0.25, None, None, 1), "a minus b is +0.2 points (no interval, 1 seed; the rule needs at least 3)"),
    (Estimate(0.5, None, None, 3), "a minus b is +0.5 points (no interval, 3 seeds)"),
    (Estimate(0.5, -0.25, 1.25, 4), "a minus b is +0.5 points (95% interval -0.2 to +1.2, 4 seeds)"),
])  # fmt: skip
def test_the_figures_behind_a_claim_are_said(found: Estimate | None, said: str) -> None:
    assert evidence("a minus b", found, Form("{:+.1f}", "points"), 3, "nothing") == said
