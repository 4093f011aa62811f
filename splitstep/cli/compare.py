"""The verb that compares schemes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..recipes import find_recipe, recipe_of_task
from .options import Data, Json, NewDirectory
from .output import Output

if TYPE_CHECKING:
    from ..training import Recipe

MOST_SEEDS = 10_000  # a run each
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RECIPE|KEY=VALUE",
        help="A recipe's name or YAML file, then entries to change, such as train.steps=500.",
    ),
]
Task = Annotated[str | None, typer.Option("--task", help="Use the recipe of this task, if no recipe is named.")]
Match = Annotated[
    str | None,
    typer.Option("--match", help="Match parameters, flops or none (equal shapes). Default: as in the recipe."),
]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", help="Where runs execute: local, local=N for N processes at once, or dask=ADDRESS of a scheduler."
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=VALUE,...",
        help="Recipe values to try for each scheme; its best on validation is reported. Several --sweep form a grid.",
    ),
]
Arms = Annotated[
    str, typer.Option("--arms", help="Also train each scheme without some of its structure, such as full,no-norm.")
]


def compare(
    words: Words = None,
    *,
    context: typer.Context,
    task: Task = None,
    schemes: Annotated[str, typer.Option("--schemes", help="Names or notations of schemes, separated by commas.")],
    seeds: Annotated[int, typer.Option("--seeds", help="The number of seeds: 5 means 0 to 4 (from train.seed).")] = 5,
    out: NewDirectory,
    match: Match = None,
    sweep: Sweep = None,
    arms: Arms = "full",
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train schemes at equal cost and compare them over seeds.

    \b
    Example:
      splitstep compare --task digits --schemes lie,macaron,strang-midpoint --seeds 5 --out runs/digits
      splitstep compare stdlib train.steps=500 --schemes "lie,F/2 A F/2" --match flops --out runs/lm
      splitstep compare --task digits --schemes lie,macaron --sweep train.lr=1e-3,3e-3 --out runs/sweep

    Prints a table with 95% intervals and writes DIR/result.json and DIR/report.html. The recipe's model is the shape
    of its reference scheme; the other schemes are resized to the same cost. Differences are to the first scheme. If
    interrupted, the same command continues: finished runs are kept.
    """
    check_count(seeds)
    name, document = document_of("compare", list(words or []), task, [] if match is None else [f"match={match}"])
    from ..studies.arms import read_ablate, split_arms
    from ..studies.compare import STUDY
    from ..studies.compare import compare as study
    from ..studies.compare.plan import read_sweep, split_schemes

    recipe = recipe_for(task, name, document)
    output = Output(as_json, out).check()  # the first run makes it, after everything is checked
    result = study(
        recipe,
        split_schemes(schemes),
        seeds_of(recipe, seeds),
        out,
        sweep=read_sweep(sweep or []),
        arms=split_arms(arms),
        own_arms=read_ablate(document, name).arms,
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, out)}", file=sys.stderr)


def document_of(verb: str, words: list[str], task: str | None, more: Sequence[str] = ()) -> tuple[str, Any]:
    """The name and the document of the recipe that is named first, or of the task's, with its entries changed."""
    name = words.pop(0) if words and "=" not in words[0] else None
    if name is None and task is None:
        raise ValueError(f"Missing recipe: name one, as in `splitstep {verb} digits ...`, or give --task digits.")
    found = recipe_of_task(str(task)) if name is None else name
    find_recipe(found)  # refuses a wrong name before torch is imported
    from ..training.recipe import load_document

    refuse_launchers(verb)
    return found, load_document(found, [*words, *more])


def recipe_for(task: str | None, name: str, document: Any) -> Recipe:
    """The recipe of a document, which must be for the task if one is given."""
    from ..training import read_recipe

    recipe = read_recipe(document, name)
    if task is not None and recipe.task != task:
        raise ValueError(f"--task {task}, but the recipe {name} is for {recipe.task}: leave one of the two out.")
    return recipe


def check_count(seeds: int) -> None:
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds {seeds}: give at least 1 and at most {MOST_SEEDS:,}.")


def seeds_of(recipe: Recipe, count: int) -> range:
    """So many seeds, from the recipe's own on."""
    check_count(count)
    return range(recipe.train.seed, recipe.train.seed + count)


def refuse_launchers(verb: str) -> None:
    """Refuse to run under torchrun: a study starts its own processes."""
    from ..training.processes import launched

    if launched("WORLD_SIZE") > 1:
        raise ValueError(f"{verb} starts its own processes: run it without torchrun, with --engine local=N.")
