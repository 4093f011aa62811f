"""Pre-trained networks on GLUE: every start fine-tuned on every task, with intervals over pre-training seeds."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from ...experiments.experiment import Setting
from ...experiments.plan import Planned, file_name, read_sweep
from ...experiments.running import Workplace, made_by_runs
from ...experiments.study import Study
from ...experiments.trials import RunRecord, outcome_of
from ...jobs import check_engine
from ...recipe import load_document
from ...support.words import did_you_mean
from ...tasks.glue import PARTS
from ...tasks.sequences import Sentences
from ...training import Recipe, override, read_recipe
from .bodies import Body, find_bodies, read_starts, shape_of
from .document import document
from .result import DEFAULT, KINDS, FineTuning, GlueResult, Kind, summed_up

__all__ = ["DEFAULT", "STUDY", "glue", "read_starts"]

STRIDE = 1000  # fine-tuning k of the body of pre-training seed s has the seed STRIDE s + k
WARMUP = 0.1  # of the steps, as in all recipes of GLUE
TUNED = ("dropout", "attention_dropout", "activation_dropout", "pool", "head_start")  # the recipe's, not the start's
OWN = ("task", "scheme", "reference", "match", "start", "train.seed", "data.name", "data.tokenizer")
EPOCHS, BATCHES, RATES = (3, 4, 5), (16, 32), (3e-5, 5e-5)  # of the Macaron paper's fine-tuning


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
    if not 1 <= seeds < STRIDE:
        raise ValueError(f"--seeds {seeds}: give at least 1 and below {STRIDE:,}, the fine-tunings of each start")
    names, kinds = check_tasks(tasks), KINDS if scratch else KINDS[:1]
    changed, swept = by_task(changes, names, ""), by_task(sweep, names, "--sweep ")
    bodies = find_bodies(starts)
    recipes = {name: recipe_of(name, bodies[0], "pre-trained", changed[name]) for name in names}
    loaded = {name: load_task(recipe, data) for name, recipe in recipes.items()}  # a missing file is reported here
    runs = [
        planned(name, body, kind, changed[name], setting, k)
        for name, task in loaded.items()
        for kind, body in product(kinds, bodies)
        for setting in settings(swept[name], grid, task)
        for k in range(seeds)
    ]
    ended = Workplace("compare glue", out, data, engine, quiet).execute(runs, loaded, tidy=True)
    tuned = [fine_tuning(*each) for each in zip(runs, ended, strict=True)]
    described = {name: task.describe() for name, task in loaded.items()}
    made = made_by_runs({name: one.document() for name, one in recipes.items()}, described, engine)
    return summed_up(bodies, kinds, seeds, loaded, tuned, made)


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
        entry = rest if only else text
        key = entry.partition("=")[0].strip()
        if key in OWN:
            raise ValueError(f"{where}{text!r}: compare glue sets {key} itself; change another entry, such as train.lr")
        for task in [only] if only else tasks:
            found[task].append(entry)
    return found


def load_task(recipe: Recipe, data: Path | None) -> Sentences:
    task = recipe.load_task(data)
    assert isinstance(task, Sentences)
    return task


def recipe_of(task: str, body: Body, kind: Kind, assignments: Sequence[str]) -> Recipe:
    """The recipe of a task for a body, or for a network of its shape that has its tokenizer, with entries changed; if
    that changes the steps alone, a tenth of them is the warm-up."""
    document = load_document(f"glue-{task}")
    tuned = {name: value for name, value in document["model"].items() if name in TUNED}
    model = {**shape_of(body), **tuned}
    own = {"start": body.path} if kind == "pre-trained" else {"data": {**document["data"], "tokenizer": body.path}}
    keys = [one.partition("=")[0].strip() for one in assignments]
    changed = override({**document, "scheme": body.scheme, "match": "none", "model": model, **own}, assignments)
    steps = changed["train"].get("steps")
    if "train.steps" in keys and "train.warmup" not in keys and isinstance(steps, int):
        changed["train"]["warmup"] = round(WARMUP * steps)
    return read_recipe(changed, f"glue-{task}")


def planned(task: str, body: Body, kind: Kind, changes: Sequence[str], setting: Setting, k: int) -> Planned:
    """Fine-tuning number k of a body on a task at one setting; the row that it belongs to is that of its name."""
    seed = STRIDE * body.seed + k
    recipe = recipe_of(task, body, kind, [*changes, *setting, f"train.seed={seed}"])
    row = [task, file_name(f"={body.name}"), *(["scratch"] if kind == "scratch" else []), *map(file_name, setting)]
    folder = f"runs/{'-'.join(row)}-seed{body.seed}-{k}"
    return Planned(str(recipe.scheme), setting, seed, recipe, folder, arm=body.name, block=task)


def settings(sweep: Sequence[str], grid: str | None, task: Sentences) -> list[Setting]:
    """The settings to try on a task: those of a sweep, or of the paper's grid."""
    swept = read_sweep(sweep)
    if grid is None:
        return swept or [()]
    if grid != "paper":
        raise ValueError(f"--grid {grid} is unknown: write --grid paper, or --sweep for another grid")
    if swept:
        raise ValueError("--grid and --sweep both choose settings: leave one of them out")
    examples = len(task.examples["train"].labels)
    return [
        (f"train.batch={batch}", f"train.steps={math.ceil(epochs * examples / batch)}", f"train.lr={rate:g}")
        for batch, epochs, rate in product(BATCHES, EPOCHS, RATES)
    ]


def fine_tuning(run: Planned, ended: RunRecord) -> FineTuning:
    return FineTuning(
        **outcome_of(ended.trial),
        task=run.block,
        name=run.arm,
        kind="scratch" if run.recipe.start is None else "pre-trained",
        body=run.seed // STRIDE,
        setting=run.setting,
        folder=run.folder,
    )


STUDY = Study(GlueResult, document)
