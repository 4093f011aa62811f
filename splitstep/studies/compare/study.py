"""Schemes against each other at equal cost: schemes x seeds as independent runs, with intervals over the seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...experiments.arms import FULL, Assignments
from ...experiments.experiment import Setting
from ...experiments.plan import Planned, plan
from ...experiments.running import made_by_runs, run_planned
from ...experiments.trials import RunRecord
from ...jobs import check_engine
from ...schemes import scheme
from ...tasks import Task
from ...tasks.pairs.translation import Translation
from ...training import Recipe
from .result import Comparison, OnTestSet, Row
from .rows import rows_of
from .test_splits import System, on_test_sets


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
    command: str | None = None,
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
    out = out.resolve()
    ended = run_planned(f"compare {recipe.task}", runs, task, out, data, engine, quiet)
    trials = [one.trial for one in ended.values()]
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
        made=made_by_runs(recipe.document(), task.describe(), engine, command),
        tests=tests_of(rows, runs, ended, data) if isinstance(task, Translation) else (),
    )


def tests_of(
    rows: Sequence[Row], runs: Sequence[Planned], ended: Mapping[str, RunRecord], data: Path | None
) -> tuple[OnTestSet, ...]:
    """The rows on each test split. Rows may have different tasks, for a sweep may change data options."""
    tasks: dict[str, Task] = {}
    systems = []
    for row in rows:
        own = [run for run in runs if (run.scheme, run.arm, run.setting) == (row.scheme, row.arm, row.setting)]
        asked = json.dumps(own[0].recipe.data, sort_keys=True)
        if asked not in tasks:
            tasks[asked] = own[0].recipe.load_task(data)
        task = tasks[asked]
        assert isinstance(task, Translation)
        found = {run.seed: ended[run.folder] for run in own}
        finished = {seed: one for seed, one in found.items() if one.trial.status == "finished"}
        systems.append(System(row.scheme, task, finished, row.arm))
    return on_test_sets(systems)
