"""The runs of the study: bodies x tasks x settings x fine-tunings, each with its recipe and its folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ...experiments.experiment import Setting
from ...experiments.plan import Planned, file_name, read_sweep
from ...models.cost import cost
from ...recipe import load_document
from ...support.words import did_you_mean
from ...tasks.glue import PARTS
from ...tasks.sentences import Sentences
from ...training import Recipe, override, read_recipe
from ...training.directory import RunDirectory
from .bodies import Body, Starts
from .result import Kind

STRIDE = 1000  # fine-tuning k of the body of pre-training seed s has the seed STRIDE s + k
WARMUP = 0.1  # of the steps, as in all recipes of GLUE
TUNED = ("dropout", "attention_dropout", "activation_dropout", "pool", "head_start")  # the recipe's, not the start's
OWN = ("task", "scheme", "reference", "match", "start", "train.seed", "data.name", "data.tokenizer")
GRIDS = ("paper",)
EPOCHS, BATCHES, RATES = (3, 4, 5), (16, 32), (3e-5, 5e-5)  # of the Macaron paper's fine-tuning


class Tuning(NamedTuple):
    """A run to do, and where it stands in the table."""

    run: Planned
    task: str
    name: str
    kind: Kind
    body: int


class Wanted(NamedTuple):
    """What a user asked for besides the starts."""

    tasks: tuple[str, ...]
    seeds: int  # fine-tunings of each body
    scratch: bool
    changes: dict[str, list[str]]  # entries to change, by task
    sweep: dict[str, list[str]]  # by task
    grid: str | None


def check_tasks(names: Sequence[str]) -> tuple[str, ...]:
    for position, name in enumerate(names):
        if name not in PARTS:
            raise ValueError(f"--tasks: {name!r} is not a task of GLUE. {did_you_mean(name, PARTS)}")
        if name in names[:position]:
            raise ValueError(f"--tasks: {name} is listed twice: name each task once")
    if not names:
        raise ValueError("--tasks is empty: name some, such as --tasks sst2,stsb")
    return tuple(names)


def by_task(texts: Sequence[str], tasks: Sequence[str], where: str) -> dict[str, list[str]]:
    """Entries such as train.lr=1e-4, which are for all tasks, and sst2.train.lr=1e-4, which are for one."""
    found: dict[str, list[str]] = {task: [] for task in tasks}
    for text in texts:
        first, dot, rest = text.partition(".")
        only = first if dot and first in PARTS else None
        if only and only not in found:
            raise ValueError(f"{where}{text!r} is for {only}, which is not among the tasks: add it to --tasks")
        key = (rest if only else text).partition("=")[0].strip()
        if key in OWN:
            raise ValueError(f"{where}{text!r}: compare glue sets {key} itself; change another entry, such as train.lr")
        for task in [only] if only else tasks:
            found[task].append(rest if only else text)
    return found


def settings(wanted: Wanted, task: str, loaded: Sentences) -> list[Setting]:
    """The settings to try on a task: those of the sweep, or of the paper's grid."""
    swept = read_sweep(wanted.sweep[task])
    if wanted.grid is None:
        return swept or [()]
    if wanted.grid not in GRIDS:
        raise ValueError(f"--grid {wanted.grid} is unknown: write --grid paper, or --sweep for a grid of your own")
    if swept:
        raise ValueError("--grid and --sweep both choose settings: leave one of them out")
    examples = len(loaded.examples["train"].labels)
    return [
        (f"train.batch={batch}", f"train.steps={math.ceil(epochs * examples / batch)}", f"train.lr={rate:g}")
        for batch, epochs, rate in product(BATCHES, EPOCHS, RATES)
    ]


def base_recipe(task: str, body: Body, kind: Kind, shape: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe of a task for a body, or for a network of its shape that has its tokenizer, as a document."""
    document = load_document(f"glue-{task}")
    tuned = {name: value for name, value in document["model"].items() if name in TUNED}
    found = {**document, "scheme": body.scheme, "match": "none", "model": {**shape, **tuned}}
    if kind == "scratch":
        return {**found, "data": {**document["data"], "tokenizer": body.path}}
    return {**found, "start": body.path}


def with_entries(document: Mapping[str, Any], assignments: Sequence[str]) -> Recipe:
    """The recipe with entries changed; if that changes the steps alone, a tenth of them is the warm-up."""
    keys = [one.partition("=")[0].strip() for one in assignments]
    changed = override(document, assignments)
    steps = changed["train"].get("steps")
    if "train.steps" in keys and "train.warmup" not in keys and isinstance(steps, int):
        changed["train"]["warmup"] = round(WARMUP * steps)
    return read_recipe(changed, f"glue-{document['data']['name']}")


def plan(starts: Starts, wanted: Wanted, tasks: Mapping[str, Sentences]) -> list[Tuning]:
    """All runs, task by task; every recipe is checked."""
    if not 1 <= wanted.seeds < STRIDE:
        raise ValueError(
            f"--seeds {wanted.seeds}: give at least 1 and below {STRIDE:,}, the fine-tunings of each start"
        )
    kinds: list[Kind] = ["pre-trained", "scratch"] if wanted.scratch else ["pre-trained"]
    return [
        tuning
        for task, loaded in tasks.items()
        for kind, body in product(kinds, starts.bodies)
        for setting in settings(wanted, task, loaded)
        for tuning in tunings(task, kind, body, setting, starts.shapes[body.name], wanted)
    ]


def tunings(
    task: str, kind: Kind, body: Body, setting: Setting, shape: Mapping[str, Any], wanted: Wanted
) -> Iterator[Tuning]:
    """The fine-tunings of a body on a task at one setting."""
    document = base_recipe(task, body, kind, shape)
    row = [task, file_name(f"={body.name}"), *(["scratch"] if kind == "scratch" else []), *map(file_name, setting)]
    for k in range(wanted.seeds):
        seed = STRIDE * body.seed + k
        recipe = with_entries(document, [*wanted.changes[task], *setting, f"train.seed={seed}"])
        folder = f"runs/{'-'.join(row)}-seed{body.seed}-{k}"
        yield Tuning(Planned(recipe.scheme, setting, seed, recipe, folder), task, body.name, kind, body.seed)


def check_runs(runs: Sequence[Tuning], out: Path, tasks: Mapping[str, Sentences]) -> list[Planned]:
    """The runs, the most expensive first, so no long one starts last; refuses folders of other runs."""
    work: dict[tuple[str, str, Setting], int] = {}
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    for one in runs:
        key, recipe, task = (one.task, one.name, one.run.setting), one.run.recipe, tasks[one.task]
        if key not in work:
            work[key] = recipe.train.steps * recipe.train.batch * cost(recipe.config(task), task.length).flops
        RunDirectory(out / one.run.folder).holds(recipe.document())
    return [one.run for one in sorted(runs, key=lambda one: -work[one.task, one.name, one.run.setting])]
