"""The verb that takes structure away from a network and measures what is lost."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .compare import MOST_SEEDS, EngineOption, Task, Words, document_of, recipe_for
from .options import Data, Json
from .output import Output

ARMS = "full,no-residual,no-norm,neither"


def ablate(
    words: Words = None,
    *,
    context: typer.Context,
    task: Task = None,
    arms: Annotated[
        str, typer.Option("--arms", help="Names of arms, separated by commas; full is always among them.")
    ] = ARMS,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="The number of seeds. Default: as in the recipe, else 3.")
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option("--rates", help="Learning rates to try, such as 5e-4,1e-3. Default: a third, 1 and 3 times lr."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The directory of all output. Default: runs/ablate-TASK."),
    ] = None,
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
    from ..studies.ablate import STUDY
    from ..studies.ablate import ablate as study
    from ..studies.ablate.plan import read_rates
    from ..studies.arms import read_ablate, split_arms
    from ..training.processes import launched

    if launched("WORLD_SIZE") > 1:
        raise ValueError("ablate starts its own processes: run it without torchrun, with --engine local=N.")
    recipe, options = recipe_for(task, name, document), read_ablate(document, name)
    count = seeds if seeds is not None else options.seeds if options.seeds is not None else 3
    if not 1 <= count <= MOST_SEEDS:
        raise ValueError(f"--seeds {count}: give at least 1 and at most {MOST_SEEDS:,}.")
    folder = out or Path("runs") / f"ablate-{recipe.task}"
    output = Output(as_json, folder).check()
    result = study(
        recipe,
        folder,
        arms=split_arms(arms),
        own_arms=options.arms,
        seeds=range(recipe.train.seed, recipe.train.seed + count),
        rates=options.rates if rates is None else read_rates(rates),
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, folder)}", file=sys.stderr)
