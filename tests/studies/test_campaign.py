"""The stages of a comparison of arms, with figures that a formula makes in place of training."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from helpers.made_up import trial

from splitstep.experiments.experiment import rate_of
from splitstep.experiments.plan import Entrant, Planned
from splitstep.experiments.trials import OF_PLAN, RunRecord
from splitstep.recipe import Recipe
from splitstep.studies.compare.campaign import Campaign
from splitstep.studies.compare.design import AT, NATS, TUNING, Design
from splitstep.studies.compare.standing import Arms

Loss = Callable[[Planned], float]


def ended(run: Planned, loss: float) -> RunRecord:
    """What a run ended with, if it had this loss; infinite: it diverged."""
    made = trial("lie", run.seed, None if math.isinf(loss) else 0.5)
    figures = None if math.isinf(loss) else {"loss": loss, "accuracy": 0.5}
    own = {name: getattr(run, name) for name in OF_PLAN}
    return RunRecord(type(made)(**{**vars(made), **own, "valid": figures, "test": figures}), NATS, {})


def campaign(loss: Loss, design: Design, arms: Sequence[str] = ("lie", "macaron"), seeds: int = 5) -> Campaign:
    entrants = [Entrant(Recipe("digits", scheme=arm), arm, arm, alone=True) for arm in arms]
    asked = list[Planned]()

    def execute(runs: Sequence[Planned]) -> list[RunRecord]:
        asked.extend(runs)
        return [ended(run, loss(run)) for run in runs]

    made = Campaign(entrants, range(seeds), design, NATS, execute)
    made.run()
    assert len({run.folder for run in asked}) == len(asked), "no run is asked for twice"
    return made


def noise(run: Planned) -> float:
    """A number that depends on all of a run."""
    return float(np.random.default_rng([run.recipe.train.seed, len(run.arm), int(10 * run.budget)]).normal())


def test_each_budget_has_its_own_steps_and_every_seed() -> None:
    found = campaign(lambda run: 2.0 - run.budget / 10 + 0.01 * noise(run), Design((1.0, 3.0)))
    steps = {run.budget: run.recipe.train.steps for run, _ in found.ended.values()}
    assert steps == {1.0: 1000, 3.0: 3000}
    assert len(found.ended) == 2 * 2 * 5
    assert Arms(found.trials, NATS).figures("lie", 3.0).keys() == set(range(5))


def test_the_null_pair_has_the_batches_of_its_seed_and_other_weights() -> None:
    found = campaign(lambda run: 2.0 + 0.01 * noise(run), Design((1.0, 2.0), null=True))
    again = [run for run, _ in found.ended.values() if run.role == "null"]
    assert [(run.budget, run.arm) for run in again] == [(2.0, "lie")] * 5
    assert [run.recipe.train.seed for run in again] == [20_000 + seed for seed in range(5)]
    assert [run.recipe.train.batch_seed for run in again] == list(range(5))


def test_rates_are_chosen_by_other_seeds_and_larger_budgets_try_the_best_two() -> None:
    """The best rate is .003 for lie and .01 for macaron, so the ladder grows once at its upper end."""
    best = {"lie": 3.1e-3, "macaron": 1e-2}

    def loss(run: Planned) -> float:
        rate = rate_of(run.setting)
        return abs(math.log(rate / best[run.arm])) - run.budget / 10

    found = campaign(loss, Design((1.0, 3.0), rates=(1e-3, 3e-3, 9e-3)))
    tuning = [run for run, _ in found.ended.values() if run.role == "tune"]
    assert {run.seed for run in tuning} == {TUNING}
    tried = {budget: {(r.arm, rate_of(r.setting)) for r in tuning if r.budget == budget} for budget in (1.0, 3.0)}
    assert {rate for arm, rate in tried[1.0] if arm == "lie"} == {1e-3, 3e-3, 9e-3, 2.7e-2}
    assert {rate for arm, rate in tried[3.0] if arm == "lie"} == {3e-3, 9e-3}
    assert all(len({rate for arm, rate in tried[3.0] if arm == name}) == 2 for name in best)
    counted = {(run.arm, rate_of(run.setting)) for run, _ in found.ended.values() if not run.role}
    assert counted == {("lie", 3e-3), ("macaron", 9e-3)}


def test_arms_that_are_decided_get_no_more_seeds() -> None:
    """macaron leads by a hundred standard deviations, and lie again by none."""
    shift = {"lie": 0.0, "macaron": -1.0, "F A": 0.0}
    found = campaign(
        lambda run: 2.0 + shift[run.arm] + 0.01 * noise(run),
        Design(until_decided=True), ("lie", "macaron", "F A"), AT[-1],
    )  # fmt: skip
    seeds = {arm: len(Arms(found.trials, NATS).figures(arm, 1.0)) for arm in shift}
    assert seeds == {"macaron": AT[0], "F A": AT[-1], "lie": AT[-1]}


def test_an_arm_that_diverged_is_not_ahead() -> None:
    def loss(run: Planned) -> float:
        lost = (run.arm, run.seed) == ("macaron", 1)
        return math.inf if lost else 2.0 - (run.arm == "macaron") + 0.01 * noise(run)

    found = campaign(loss, Design(until_decided=True), seeds=AT[-1])
    assert len(Arms(found.trials, NATS).figures("macaron", 1.0)) == AT[-1] - 1


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"budgets": (3.0, 1.0)}, "--budgets 3,1"),
        ({"budgets": (0.0, 1.0)}, "--budgets 0,1"),
        ({"margin": 0.0}, "--margin 0"),
        ({"margin": math.nan}, "--margin nan"),
        ({"rates": (1e-3, 1e-3)}, "rates"),
    ],
)
def test_a_design_without_sense_is_refused(entries: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Design(**entries)  # pyright: ignore[reportArgumentType]
