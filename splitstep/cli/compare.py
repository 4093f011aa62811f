"""The verb that compares schemes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Data, Json, NewDirectory
from .output import Output

if TYPE_CHECKING:
    from ..studies.compare.result import Comparison
    from ..training import Recipe

MOST_SEEDS = 10_000  # a run each
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPE] [KEY=VALUE]...", help="A YAML file, and entries of it to change."),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="KEY=VALUE,...", help="Values to try for each scheme, chosen on validation."),
]


def compare(
    words: Words = None,
    *,
    context: typer.Context,
    task: Annotated[
        str | None, typer.Option("--task", help="A task by name, with the recipe that it comes with.")
    ] = None,
    schemes: Annotated[str, typer.Option("--schemes", help="Rows' names or notations, with commas between.")],
    seeds: Annotated[int, typer.Option("--seeds", help="How many: 5 means 0 to 4, or from train.seed on.")] = 5,
    out: NewDirectory,
    match: Annotated[str | None, typer.Option("--match", help="What is equal: parameters, flops or none.")] = None,
    sweep: Sweep = None,
    engine: Annotated[str, typer.Option("--engine", help="local, local=N or dask=ADDRESS.")] = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train schemes at equal cost with several seeds: a table with intervals, and DIR/report.html.

    \b
    Example:
      splitstep compare --task digits --schemes lie,macaron,strang-midpoint --seeds 5 --out runs/digits
      splitstep compare recipes/stdlib.yaml train.steps=500 --schemes "lie,F/2 A F/2" --match flops --out runs/lm
      splitstep compare --task digits --schemes lie,macaron --sweep train.lr=1e-3,3e-3 --out runs/sweep

    The recipe's model is the shape of its reference scheme; every scheme is a twin of it at equal cost. Differences
    are to the first scheme. Started again, it goes on: finished runs are kept.
    """
    from ..report.tables import to_terminal
    from ..studies.compare import compare as study
    from ..studies.compare.plan import read_sweep, split_schemes
    from ..studies.compare.tables import comparison_tables
    from ..training.processes import launched

    recipe = _recipe_of(list(words or []), task, match)
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds {seeds}: give at least 1 and at most {MOST_SEEDS:,}.")
    if launched("WORLD_SIZE") > 1:
        raise ValueError("compare starts its own processes: run it without torchrun, with --engine local=N.")
    output = Output(as_json, out).check()  # the first run makes it, once all that was asked for is known to be right
    result = study(
        recipe,
        split_schemes(schemes),
        range(recipe.train.seed, recipe.train.seed + seeds),
        out,
        sweep=read_sweep(sweep or []),
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit(result.document(), lambda: to_terminal(comparison_tables(result)))
    _draw(result, out)


def _recipe_of(words: list[str], task: str | None, match: str | None) -> Recipe:
    """The recipe that the words name, or the one that comes with the task."""
    from ..support.words import did_you_mean
    from ..tasks import TASKS
    from ..training import load_recipe

    file = words.pop(0) if words and "=" not in words[0] else None
    if match is not None:
        words.append(f"match={match}")
    if file is None and task is None:
        raise ValueError("Missing task: give --task digits, or a recipe such as recipes/digits.yaml.")
    if file is None and task not in TASKS:
        raise ValueError(f"Unknown task {task!r}. {did_you_mean(str(task), TASKS)}")
    recipe = load_recipe(file or _recipe_file(str(task)), words)
    if task is not None and recipe.task != task:
        raise ValueError(f"--task {task}, and the recipe {file} is for {recipe.task}: leave one of the two out.")
    return recipe


def _recipe_file(task: str) -> str:
    """The recipe that comes with a task: in ./recipes, else in the package's checkout."""
    places = [Path("recipes"), Path(__file__).resolve().parents[2] / "recipes"]
    found = next((place / f"{task}.yaml" for place in places if (place / f"{task}.yaml").is_file()), None)
    if found is None:
        raise ValueError(f"There is no recipes/{task}.yaml here: give a recipe, as in `splitstep compare my.yaml ...`.")
    return str(found)


def _draw(result: Comparison, out: Path) -> None:
    """Write report.html; the result is safe already, so that a missing package is only a remark."""
    from ..report.page import MissingPackage
    from ..studies.compare import STUDY

    try:
        print(f"Report: {STUDY.write_page(result, out)}", file=sys.stderr)
    except MissingPackage as error:
        print(f"No report.html: {error}", file=sys.stderr)
