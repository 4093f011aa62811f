"""Pre-trained networks on GLUE: every start fine-tuned on every task, with intervals over pre-training seeds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from ...experiments.plan import Planned
from ...experiments.running import made_by_runs, run_all
from ...experiments.trials import RunRecord
from ...jobs import check_engine
from ...support.provenance import Provenance
from ...tasks.sentences import Sentences
from ...text.files import data_root
from ...training.directory import RunDirectory
from ...training.progress import Progress, RunsProgress
from ...training.result import RunOutcome
from .bodies import Starts, find_bodies
from .claims import base_of, claims_of
from .plan import Tuning, Wanted, base_recipe, by_task, check_runs, check_tasks, plan, with_entries
from .result import GlueResult, Kind, Tuned
from .rows import Grouped, differences
from .scores import APART, DEFAULT, majority_of


def glue(
    starts: Mapping[str, Sequence[str]],
    out: Path,
    *,
    seeds: int = 2,
    tasks: Sequence[str] = DEFAULT,
    scratch: bool = False,
    changes: Sequence[str] = (),
    sweep: Sequence[str] = (),
    grid: str | None = None,
    engine: str = "local",
    data: Path | None = None,
    command: str | None = None,
    quiet: bool = False,
) -> GlueResult:
    """Fine-tune every start `seeds` times on each task; finished runs in `out` are reused.

    `starts` has the paths of each name's pre-trained runs or models, one for each pre-training seed; `read_starts`
    makes it from text. With `scratch` the same networks are also trained without pre-training. `changes` are recipe
    entries for all tasks ("train.steps=100") or for one ("sst2.train.steps=100"), and so are the values of a `sweep`
    ("train.lr=1e-4,2e-4"). `grid="paper"` sweeps the Macaron paper's grid. Settings are chosen on `valid` for each
    task and row.
    """
    check_engine(engine)
    names = check_tasks(tasks)
    wanted = Wanted(names, seeds, scratch, by_task(changes, names, ""), by_task(sweep, names, "--sweep "), grid)
    found = find_bodies(starts)
    loaded = load_tasks(found, wanted, data)
    runs = plan(found, wanted, loaded)
    out = out.resolve()
    ordered = check_runs(runs, out, loaded)
    with Progress("compare glue", sum(run.recipe.train.steps for run in ordered), quiet) as bar:
        ended = dict(run_tidily(ordered, out, data_root(data).resolve(), engine, RunsProgress(bar, len(runs))))
    tuned = [tuned_of(one, ended[one.run.folder]) for one in runs]
    described = {name: task.describe() for name, task in loaded.items()}
    made = made_by_runs(recipes_of(found, wanted), described, engine, command)
    return summed_up(found, wanted, loaded, tuned, made)


def load_tasks(starts: Starts, wanted: Wanted, data: Path | None) -> dict[str, Sentences]:
    """The tasks with their data, in the tokens of the starts. A missing file is reported here, before any run."""
    body, found = starts.bodies[0], dict[str, Sentences]()
    for task in wanted.tasks:
        document = base_recipe(task, body, "pre-trained", starts.shapes[body.name])
        loaded = with_entries(document, wanted.changes[task]).load_task(data)
        assert isinstance(loaded, Sentences)
        found[task] = loaded
    return found


def run_tidily(
    runs: Sequence[Planned], out: Path, data: Path, engine: str, watch: RunsProgress
) -> Iterator[tuple[str, RunRecord]]:
    """The runs as they end, by folder; checkpoints of runs that are over are deleted, for there are many runs."""
    for ended in run_all(runs, out, data, engine, watch):
        shutil.rmtree(RunDirectory(out / ended.trial.folder).checkpoints, ignore_errors=True)
        yield ended.trial.folder, ended


def tuned_of(one: Tuning, ended: RunRecord) -> Tuned:
    entries: dict[str, Any] = {field.name: getattr(ended.trial, field.name) for field in fields(RunOutcome)}
    own = {"task": one.task, "name": one.name, "kind": one.kind, "body": one.body}
    return Tuned(**entries, **own, setting=one.run.setting, folder=one.run.folder)


def summed_up(
    starts: Starts, wanted: Wanted, tasks: Mapping[str, Sentences], runs: Sequence[Tuned], made: Provenance
) -> GlueResult:
    """The result of all runs."""
    in_mean = [task for task in wanted.tasks if task not in APART]
    kinds: list[Kind] = ["pre-trained", "scratch"] if wanted.scratch else ["pre-trained"]
    groups = [Grouped(name, kind, runs, in_mean) for kind, name in product(kinds, starts.names)]
    rows = [group.row(starts.bodies) for group in groups]
    base = base_of([(row.name, row.scheme) for row in rows])
    found = differences(groups, starts.bodies, base)
    return GlueResult(
        tasks=wanted.tasks,
        in_mean=tuple(in_mean),
        fine_tunings=wanted.seeds,
        bodies=starts.bodies,
        rows=tuple(rows),
        majority=tuple(majority_of(name, task) for name, task in tasks.items()),
        differences=tuple(found),
        claims=tuple(claims_of(rows, found, in_mean)),
        runs=tuple(runs),
        made=made,
    )


def recipes_of(starts: Starts, wanted: Wanted) -> dict[str, Any]:
    """The recipe of each task, as the first body has it."""
    body = starts.bodies[0]
    documents = {task: base_recipe(task, body, "pre-trained", starts.shapes[body.name]) for task in wanted.tasks}
    return {task: with_entries(document, wanted.changes[task]).document() for task, document in documents.items()}
