"""How often a comparison decides between two arms that are the same, by training: lie against itself on digits.

    python benchmarks/compare_null.py --out results/compare/null.json --runs runs/null

Trains the plain Transformer twice with each of 100 seeds: the same batches, other weights and dropout. Each five seeds
are a comparison. At most 3 of the 20 may be decided; with the second arm shifted by five noise floors, all must be.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from splitstep.experiments.ladder import leads
from splitstep.experiments.looks import Looks, follow
from splitstep.experiments.noise import noise_floor
from splitstep.experiments.plan import Entrant
from splitstep.experiments.running import Workplace
from splitstep.recipe import load_recipe
from splitstep.studies.compare.campaign import Campaign
from splitstep.studies.compare.design import Design
from splitstep.studies.compare.standing import Arms
from splitstep.support.provenance import stamp
from splitstep.tasks.measures import ACCURACY

REPEATS, SEEDS, SHIFT, MOST = 20, 5, 5.0, 3


def main() -> None:
    """Train, compare, and write how often a comparison decided."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path, default=Path("runs/null"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--engine", default="local")
    asked = parser.parse_args()
    recipe = load_recipe("digits", [f"train.steps={asked.steps}"])
    place, task = Workplace("lie against itself", asked.runs, None, asked.engine, False), recipe.load_task()
    campaign = Campaign(
        [Entrant(recipe, "lie", "lie", alone=True)], range(asked.repeats * SEEDS), Design(null=True), ACCURACY,
        lambda runs: place.execute(runs, {"": task}, tidy=True),
    )  # fmt: skip
    campaign.run()
    arms = Arms(campaign.trials, ACCURACY)
    first, again = arms.figures("lie", 1.0), arms.figures("lie", 1.0, "null")
    floor = noise_floor(first, again)
    assert floor is not None
    groups = [range(SEEDS * n, SEEDS * (n + 1)) for n in range(asked.repeats)]
    words = {
        shift: [follow(shifted(first, again, shift * floor.sd), group, Looks((SEEDS,))).word for group in groups]
        for shift in (0.0, SHIFT)
    }
    decided = {shift: sum(word != "open" for word in own) for shift, own in words.items()}
    found = {
        "recipe": recipe.document(), "repeats": asked.repeats, "seeds": SEEDS, "floor": floor._asdict(),
        "decided": decided[0.0], "decided_if_shifted": decided[SHIFT], "shift_in_floors": SHIFT,
        "holds": decided[0.0] <= MOST and decided[SHIFT] == asked.repeats, "figures": {"first": first, "again": again},
        **stamp(),
    }  # fmt: skip
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{decided[0.0]} of {asked.repeats} decided, {decided[SHIFT]} if shifted; floor {floor.sd:.4f}")


def shifted(first: dict[int, float], again: dict[int, float], by: float) -> dict[int, float]:
    """The leads of the second arm, with so much added."""
    return {seed: lead + by for seed, lead in leads(again, first, True).items()}


if __name__ == "__main__":
    main()
