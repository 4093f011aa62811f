"""Networks against each other at equal cost, as independent runs with intervals over the seeds: schemes with what
changes in them, or arms of any kind.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...experiments.arms import FULL, Assignments
from ...experiments.experiment import Setting
from ...experiments.plan import Entrant, Planned, entrants_of, plan
from ...experiments.running import Workplace, made_by_runs
from ...experiments.study import Study
from ...experiments.trials import RunRecord
from ...jobs import check_engine
from ...tasks import Task
from ...tasks.pairs.translation import Translation
from ...training import Recipe
from .campaign import Campaign
from .design import Design, compared_metric, counted
from .document import document
from .result import Comparison, Row, against, rows_of
from .tables import tables_together
from .test_splits import System, on_test_sets

__all__ = ["STUDY", "compare", "compare_entrants"]


def compare(
    recipe: Recipe,
    schemes: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    sweep: Sequence[Setting] = (),
    arms: Sequence[str] = (FULL,),
    own_arms: Mapping[str, Assignments] | None = None,
    engine: str = "local",
    data: Path | None = None,
    quiet: bool = False,
) -> Comparison:
    """Train every scheme with every seed at the cost of the recipe's reference; finished runs in `out` are reused.

    With a sweep each scheme is trained at every setting, and its row has the setting that is best on the validation
    split. With arms each scheme has a row for every one of them. The test figures of a row are means over the runs
    that finished; runs that diverged are counted apart.
    """
    check_engine(engine)
    entrants = entrants_of(recipe, schemes, arms, own_arms)
    plan(entrants, seeds, sweep)  # refuses what is wrong with any run
    place = Workplace(f"compare {recipe.task}", out, data, engine, quiet)
    return compare_entrants(recipe, entrants, seeds, place, sweep=sweep)


def compare_entrants(
    recipe: Recipe,
    entrants: Sequence[Entrant],
    seeds: Sequence[int],
    place: Workplace,
    *,
    sweep: Sequence[Setting] = (),
    design: Design | None = None,
    changed: Mapping[str, tuple[str, ...]] | None = None,
    seconds: Callable[[Planned], float] | None = None,
) -> Comparison:
    """Train all entrants and compare them with the first. A design belongs to arms that are named alone, as does what
    was `changed` in configs of others; `seconds` is how long a run takes by its plan."""
    task = recipe.load_task(place.data)  # here a missing file is reported once, and caches are made before workers
    metric = task.metric if design is None else compared_metric(task.metric)

    def execute(runs: Sequence[Planned]) -> list[RunRecord]:
        later = sum(map(seconds, campaign.later(runs))) if seconds else 0.0
        return place.execute(runs, {"": task}, seconds=seconds, later=later)

    campaign = Campaign(entrants, seeds, design or Design(), metric, execute, sweep)
    campaign.run()
    rows = rows_of(counted(campaign.trials, campaign.design.largest), metric)
    return Comparison(
        task=recipe.task,
        metric=metric,
        match=recipe.match,
        reference=str(recipe.reference),
        seeds=tuple(seeds),
        sweep=tuple(sweep),
        rows=tuple(rows),
        trials=tuple(campaign.trials),
        made=made_by_runs(recipe.document(), task.describe(), place.engine),
        tests=on_test_sets(systems_of(rows, campaign, place.data)) if isinstance(task, Translation) else (),
        design=design,
        changed=dict(changed or {}),
    )


def systems_of(rows: Sequence[Row], campaign: Campaign, data: Path | None) -> list[System]:
    """The rows with their finished runs. They may have different tasks, for a sweep may change data options."""
    tasks, found = dict[str, Task](), list[System]()
    ended: list[tuple[Planned, RunRecord]] = [
        (run, one) for run, one in campaign.ended.values() if not run.role and run.budget == campaign.design.largest
    ]
    for row in rows:
        chosen = "", row.scheme, row.arm, row.setting
        own = [(run, one) for run, one in ended if run.row == chosen]
        recipe = own[0][0].recipe
        options = json.dumps(recipe.data, sort_keys=True)
        task = tasks[options] = tasks.get(options) or recipe.load_task(data)
        assert isinstance(task, Translation)
        finished = {run.seed: one for run, one in own if one.trial.status == "finished"}
        found.append(System(row.scheme, task, finished, row.arm, row.alone))
    return found


STUDY = Study(Comparison, document, tables_together, against)
