"""The verb that compares schemes. `compare glue` and `compare distil` are verbs of their own."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..recipes import find_recipe, recipe_names, recipe_of_task
from ..support.words import nearest
from .options import Data, EngineOption, Json, NewDirectory, Sweep
from .output import Output

if TYPE_CHECKING:
    from ..recipe import Recipe

MOST_SEEDS = 10_000  # a run each
OTHERS = ("glue", "distil")  # comparisons of other things, each a verb


def checked_count(seeds: int) -> int:
    """The number of seeds, unless it is too small or too large."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds {seeds}: give at least 1 and at most {MOST_SEEDS:,}.")
    return seeds


def refuse_misspelt_verbs(words: list[str] | None) -> list[str] | None:
    """The words, unless the first is a recipe only by mistake. Asked before click complains of missing options."""
    first = words[0] if words else "="
    if "=" not in first and first not in recipe_names() and not Path(first).is_file():
        near = nearest(first, [*recipe_names(), *OTHERS])
        if near in OTHERS:
            raise ValueError(f"There is no recipe {first!r}. Did you mean `splitstep compare {near} ...`?")
    return words


PLACE, ABOUT = "RECIPE|KEY=VALUE", "A recipe's name or YAML file, then entries to change, such as train.steps=500."
Words = Annotated[list[str] | None, typer.Argument(metavar=PLACE, help=ABOUT)]
WordsOfSchemes = Annotated[list[str] | None, typer.Argument(metavar=PLACE, help=ABOUT, callback=refuse_misspelt_verbs)]
Task = Annotated[str | None, typer.Option("--task", help="Use the recipe of this task, if no recipe is named.")]
Schemes = Annotated[str, typer.Option("--schemes", help="Names or notations of schemes, such as lie,macaron.")]
Seeds = Annotated[
    int,
    typer.Option("--seeds", help="The number of seeds: 5 means 0 to 4 (from train.seed).", callback=checked_count),
]
Match = Annotated[
    str | None,
    typer.Option("--match", help="Match parameters, flops or none (equal shapes). Default: as in the recipe."),
]
Arms = Annotated[
    str, typer.Option("--arms", help="Also train each scheme without some of its structure, such as full,no-norm.")
]


def compare(
    words: WordsOfSchemes = None,
    *,
    context: typer.Context,
    task: Task = None,
    schemes: Schemes,
    seeds: Seeds = 5,
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

    Prints a table with 95% intervals and writes DIR/result.json and DIR/report.html. Schemes are resized to the cost of
    the recipe's model in its reference scheme. If interrupted, the same command continues: finished runs are kept.

    \b
    Other comparisons have options of their own:
      splitstep compare glue --help      pre-trained networks, fine-tuned on GLUE
      splitstep compare distil --help    methods of distillation
    """
    name, document = document_of("compare", list(words or []), task, [] if match is None else [f"match={match}"])
    recipe, output = recipe_for(task, name, document), Output(as_json, out).check()
    from ..experiments.arms import read_ablate, split_arms
    from ..experiments.plan import read_sweep, split_schemes
    from ..studies import compare as study

    result = study.compare(
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
    output.emit_result(result)


def document_of(verb: str, words: list[str], task: str | None, more: Sequence[str] = ()) -> tuple[str, Any]:
    """The name and the document of the recipe that is named first, or of the task's, with its entries changed."""
    name = words.pop(0) if words and "=" not in words[0] else None
    if name is None and task is None:
        raise ValueError(f"Missing recipe: name one, as in `splitstep {verb} digits ...`, or give --task digits.")
    found = recipe_of_task(str(task)) if name is None else name
    find_recipe(found)  # refuses a wrong name before torch is imported
    from ..recipe import load_document

    refuse_launchers(verb)
    return found, load_document(found, [*words, *more])


def recipe_for(task: str | None, name: str, document: Any) -> Recipe:
    """The recipe of a document, which must be for the task if one is given."""
    from ..recipe import read_recipe

    recipe = read_recipe(document, name)
    if task is not None and recipe.task != task:
        raise ValueError(f"--task {task}, but the recipe {name} is for {recipe.task}: leave one of the two out.")
    return recipe


def seeds_of(recipe: Recipe, count: int) -> range:
    """So many seeds, from the recipe's own on."""
    return range(recipe.train.seed, recipe.train.seed + checked_count(count))


def refuse_launchers(verb: str) -> None:
    """Refuse to run under torchrun: a study starts its own processes."""
    if "WORLD_SIZE" not in os.environ:
        return
    from ..training.processes import launched

    if launched("WORLD_SIZE") > 1:
        raise ValueError(f"{verb} starts its own processes: run it without torchrun, with --engine local=N.")
