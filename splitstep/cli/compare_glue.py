"""`splitstep compare glue`: pre-trained networks against each other, fine-tuned on GLUE."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from .compare import refuse_launchers
from .options import Data, EngineOption, Json, NewDirectory, Sweep
from .output import Output

Entries = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Recipe entries to change, such as train.steps=500; for one task, such as sst2.train.steps=500.",
    ),
]
Start = Annotated[
    str,
    typer.Option(
        "--start",
        metavar="NAME=RUN,...|DIR",
        help="Pre-trained runs, as in lie=runs/a,macaron=runs/b, several of one name joined by + or matched by *; "
        "or a whole comparison.",
    ),
]
FineTunings = Annotated[int, typer.Option("--seeds", help="The number of fine-tunings of each pre-trained network.")]
Scratch = Annotated[bool, typer.Option("--scratch", help="Also train the same networks without pre-training.")]
Tasks = Annotated[
    str | None, typer.Option("--tasks", help="Tasks, separated by commas. Default: cola,sst2,mrpc,rte,stsb.")
]
Grid = Annotated[
    str | None, typer.Option("--grid", help="paper: try epochs, batches and rates as the Macaron paper does.")
]


def compare_glue(
    entries: Entries = None,
    *,
    context: typer.Context,
    start: Start,
    seeds: FineTunings = 2,
    scratch: Scratch = False,
    tasks: Tasks = None,
    grid: Grid = None,
    out: NewDirectory,
    sweep: Sweep = None,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Fine-tune pre-trained networks on GLUE and compare them over pre-training seeds.

    \b
    Example:
      splitstep compare mlm-small data.train=my-text/ --schemes lie,macaron --seeds 5 --out runs/pretrain
      splitstep compare glue --start runs/pretrain --seeds 2 --scratch --out runs/glue
      splitstep compare glue --start lie=runs/a+runs/b,macaron=runs/m* --tasks rte,mrpc --out runs/few

    Prints the scores of each task with 95% intervals and writes DIR/result.json and DIR/report.html. If interrupted,
    the same command continues: finished runs are kept.
    """
    for word in entries or []:
        if "=" not in word:
            raise ValueError(f"compare glue takes entries to change, such as train.steps=500, but not {word!r}.")
    refuse_launchers("compare glue")
    from ..studies.glue import glue, read_starts
    from ..studies.glue.scores import DEFAULT

    output = Output(as_json, out).check()
    result = glue(
        read_starts(start),
        out,
        seeds=seeds,
        tasks=DEFAULT if tasks is None else [task.strip() for task in tasks.split(",")],
        scratch=scratch,
        changes=entries or [],
        sweep=sweep or [],
        grid=grid,
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit_result(result)
