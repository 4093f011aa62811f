"""The verb that asks whether a network is close to an equation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .compare import EngineOption, Task, check_count, document_of, recipe_for
from .options import Data, Json
from .output import Output

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN|RECIPE|KEY=VALUE",
        help="The directory of a finished run; with --depths a recipe, and entries to change, such as train.steps=100.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the result and the page go. Default: RUN-converge; with --depths, runs/converge-TASK.",
    ),
]
Depths = Annotated[
    str | None, typer.Option("--depths", help="Train networks of these numbers of layers over the same time.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", help="With --depths: the number of seeds. Default: 1.")]
Schemes = Annotated[
    str | None,
    typer.Option("--schemes", help="Of a run: schemes of the network's own fields, separated by commas."),
]
Substeps = Annotated[
    str | None, typer.Option("--substeps", help="Of a run: sub-steps of each layer. Default: 1,2,4,8.")
]
Steps = Annotated[
    str | None, typer.Option("--steps", help="Of a run: factors of the step. Default: from 0.25 to 4 by the root of 2.")
]
Examples = Annotated[int | None, typer.Option("--examples", help="Of a run: validation examples. Default: 256.")]


def converge(
    words: Words = None,
    *,
    context: typer.Context,
    task: Task = None,
    depths: Depths = None,
    seeds: Seeds = None,
    out: OutOption = None,
    schemes: Schemes = None,
    substeps: Substeps = None,
    steps: Steps = None,
    examples: Examples = None,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Ask whether a network is close to an equation.

    \b
    Example:
      splitstep converge runs/digits
      splitstep converge runs/digits --schemes lie,strang,rk4 --substeps 1,2,4,8 --steps 0.5,1,2,4
      splitstep converge --task digits --depths 3,6,12,24,48

    Of a run: how its output and accuracy change with the scheme, the sub-steps and the step length, the local error of
    each layer, and how close the network is to its continuous limit. With --depths: whether deeper networks over the
    same time approach a limit. If interrupted, the same command continues: finished runs are kept.
    """
    given, command = list(words or []), shlex.join(context.obj)
    if depths is not None:
        for name, value in (("schemes", schemes), ("substeps", substeps), ("steps", steps), ("examples", examples)):
            if value is not None:
                raise ValueError(f"--{name} is for a run: leave it out, or leave out --depths.")
        deepen(given, task, depths, 1 if seeds is None else seeds, out, engine, data, as_json, command)
    elif len(given) != 1 or task is not None or seeds is not None:
        raise ValueError(
            "converge takes one run, as in `splitstep converge runs/digits`, or --depths, as in "
            "`splitstep converge --task digits --depths 3,6,12,24`."
        )
    else:
        discretise(Path(given[0]), out, schemes, substeps, steps, examples, data, as_json, command)


def deepen(
    words: list[str],
    task: str | None,
    depths: str,
    seeds: int,
    out: Path | None,
    engine: str,
    data: Path | None,
    as_json: bool,
    command: str,
) -> None:
    """Run the study of growing depth and write its page."""
    check_count(seeds)
    name, document = document_of("converge", words, task)
    from ..studies.converge.limit import continuous_limit, read_depths
    from ..studies.converge.limit_report import STUDY

    recipe = recipe_for(task, name, document)
    layers = read_depths(depths)
    out = Path("runs") / f"converge-{recipe.task}" if out is None else out
    check_free(out, "limit")
    output = Output(as_json, out)
    numbers = range(recipe.train.seed, recipe.train.seed + seeds)
    result = continuous_limit(recipe, layers, numbers, out, engine=engine, data=data, command=command)
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, out)}", file=sys.stderr)


def discretise(
    run: Path,
    out: Path | None,
    schemes: str | None,
    substeps: str | None,
    steps: str | None,
    examples: int | None,
    data: Path | None,
    as_json: bool,
    command: str,
) -> None:
    """Run the study of a trained network and write its page."""
    from ..studies.compare.plan import split_schemes
    from ..studies.converge import discretisation as study
    from ..studies.converge.discretisation_report import STUDY
    from ..training.progress import counting

    named = run if run.name else run.resolve()  # "." has no name
    out = named.parent / f"{named.name}-converge" if out is None else out
    check_free(out, "discretisation")
    chosen = split_schemes(schemes) if schemes else []
    counts = study.SUBSTEPS if substeps is None else study.read_substeps(substeps)
    factors = study.FACTORS if steps is None else study.read_factors(steps)
    many = study.EXAMPLES if examples is None else examples
    result = study.discretisation(
        run, chosen, counts, factors, many, data, command, counting("converge", unit="passes")
    )
    output = Output(as_json, out).open()
    output.emit(result.document(), lambda: STUDY.to_terminal(result))
    print(f"Report: {STUDY.write_page(result, out)}", file=sys.stderr)


def check_free(out: Path, study: str) -> None:
    """Refuse a directory that holds something else than a result of this study."""
    import json

    Output(False, out).check()
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out.")
    if not (out / "result.json").exists():
        if out.is_dir() and any(out.iterdir()) and not (out / "runs").is_dir():
            raise ValueError(f"{out} holds other files: name a new directory with --out.")
        return
    try:
        found = json.loads((out / "result.json").read_text(encoding="utf-8")).get("study")
    except (ValueError, AttributeError):
        found = None
    if found != study:
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out.")
