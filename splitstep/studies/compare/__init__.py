"""Schemes against each other at equal cost: schemes x seeds as independent runs, with intervals over the seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...experiments.experiment import Setting
from ...experiments.plan import FULL, Assignments, Planned, plan
from ...experiments.running import Workplace, made_by_runs
from ...experiments.study import Study
from ...experiments.trials import RunRecord
from ...jobs import check_engine
from ...schemes import scheme
from ...tasks import Task
from ...tasks.pairs.translation import Translation
from ...training import Recipe
from .document import document
from .result import Comparison, Row, against, rows_of
from .tables import tables_together
from .test_splits import System, on_test_sets

__all__ = ["STUDY", "compare"]


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
    runs = plan(recipe, schemes, seeds, sweep, arms, own_arms)
    task = recipe.load_task(data)  # here a missing file is reported once, and caches are made before workers need them
    ended = Workplace(f"compare {recipe.task}", out, data, engine, quiet).execute(runs, {"": task})
    trials = [one.trial for one in ended]
    rows = rows_of(trials, task.metric)
    return Comparison(
        task=recipe.task,
        metric=task.metric,
        match=recipe.match,
        reference=str(scheme(recipe.reference)),
        seeds=tuple(seeds),
        sweep=tuple(sweep),
        rows=tuple(rows),
        trials=tuple(trials),
        made=made_by_runs(recipe.document(), task.describe(), engine),
        tests=on_test_sets(systems_of(rows, runs, ended, data)) if isinstance(task, Translation) else (),
    )


def systems_of(
    rows: Sequence[Row], runs: Sequence[Planned], ended: Sequence[RunRecord], data: Path | None
) -> list[System]:
    """The rows with their finished runs. They may have different tasks, for a sweep may change data options."""
    tasks, found = dict[str, Task](), list[System]()
    for row in rows:
        chosen = "", row.scheme, row.arm, row.setting
        own = [(run, one) for run, one in zip(runs, ended, strict=True) if run.row == chosen]
        recipe = own[0][0].recipe
        options = json.dumps(recipe.data, sort_keys=True)
        task = tasks[options] = tasks.get(options) or recipe.load_task(data)
        assert isinstance(task, Translation)
        finished = {run.seed: one for run, one in own if one.trial.status == "finished"}
        found.append(System(row.scheme, task, finished, row.arm))
    return found


STUDY = Study(Comparison, document, tables_together, against)
