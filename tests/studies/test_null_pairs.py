"""A real network against itself: trained again with the same batches and other weights, it is rarely told apart."""

from pathlib import Path

import pytest

from splitstep.experiments.ladder import leads
from splitstep.experiments.looks import Decision, Looks, follow
from splitstep.experiments.noise import noise_floor
from splitstep.experiments.plan import Entrant
from splitstep.experiments.running import Workplace
from splitstep.recipe import load_recipe
from splitstep.studies.compare.standing import Arms

REPEATS, SEEDS = 20, 4


@pytest.mark.nightly
def test_digits_against_itself_is_open_and_a_shift_of_five_floors_is_decided(tmp_path: Path) -> None:
    recipe = load_recipe("digits", ["train.steps=40", "train.warmup=10", "model.layers=1", "model.width=32"])
    task, seeds = recipe.load_task(None), range(REPEATS * SEEDS)
    lie = Entrant(recipe, "A F", "lie", alone=True)
    ended = Workplace("null pairs", tmp_path, None, "local=2", True).execute(
        [*lie.runs(seeds), *lie.runs(seeds, role="null")], {"": task}, tidy=True
    )
    arms = Arms([one.trial for one in ended], task.metric)
    lead = leads(arms.figures("lie", 1.0, "null"), arms.figures("lie", 1.0), True)
    assert len(lead) == REPEATS * SEEDS
    floor = noise_floor(arms.figures("lie", 1.0), arms.figures("lie", 1.0, "null"))
    assert floor is not None

    def decided(shift: float) -> int:
        return sum(one.word != "open" for one in repeats(shift))

    def repeats(shift: float) -> list[Decision]:
        found = {seed: one + shift for seed, one in lead.items()}
        return [follow(found, seeds[k : k + SEEDS], Looks((SEEDS,))) for k in range(0, len(seeds), SEEDS)]

    assert decided(0.0) <= 3
    assert decided(5 * floor.sd) == REPEATS
