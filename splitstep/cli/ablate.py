"""The verb that takes structure away from a network and measures what is lost."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from .compare import Task, Words, document_of, recipe_for, seeds_of
from .options import Data, EngineOption, Json
from .output import Output

SEEDS = 3  # unless the recipe says otherwise
Arms = Annotated[str, typer.Option("--arms", help="Names of arms, separated by commas; full is always among them.")]
Seeds = Annotated[
    int | None, typer.Option("--seeds", help=f"The number of seeds. Default: as in the recipe, else {SEEDS}.")
]
Rates = Annotated[
    str | None,
    typer.Option("--rates", help="Learning rates to try, such as 5e-4,1e-3. Default: a third, 1 and 3 times lr."),
]
Folder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The directory of all output. Default: runs/ablate-TASK.")
]


def ablate(
    words: Words = None,
    *,
    context: typer.Context,
    task: Task = None,
    arms: Arms = "full,no-residual,no-norm,neither",
    seeds: Seeds = None,
    rates: Rates = None,
    out: Folder = None,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train a network without its residuals or norms, and measure what is lost.

    \b
    Example:
      splitstep ablate --task digits
      splitstep ablate listops --arms full,no-norm,sandwich,diffusion --seeds 5
      splitstep ablate digits train.steps=200 --rates 1e-3,3e-3 --out runs/ablate

    Each arm is a network that differs in one thing. It is trained at its own best learning rate and at the full arm's.
    Prints what the seeds say about each claim, and writes DIR/result.json and DIR/report.html. If interrupted, the same
    command continues: finished runs are kept.
    """
    name, document = document_of("ablate", list(words or []), task)
    from ..experiments.arms import read_ablate, split_arms
    from ..studies.ablate import ablate as study
    from ..studies.ablate.plan import read_rates

    recipe, options = recipe_for(task, name, document), read_ablate(document, name)
    count = next(given for given in (seeds, options.seeds, SEEDS) if given is not None)
    folder = out or Path("runs") / f"ablate-{recipe.task}"
    output = Output(as_json, folder).check()
    result = study(
        recipe,
        folder,
        arms=split_arms(arms),
        own_arms=options.arms,
        seeds=seeds_of(recipe, count),
        rates=options.rates if rates is None else read_rates(rates),
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit_result(result)
