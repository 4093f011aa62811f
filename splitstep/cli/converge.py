"""The verb that asks whether a network is close to an equation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from .compare import Task, checked_count, document_of, recipe_for
from .options import Data, EngineOption, Json
from .output import Output

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN|MODEL|RECIPE|KEY=VALUE",
        help="The directory of a finished run; a pretrained model: its folder, a GGUF file or its name on the Hub; "
        "with --depths a recipe, and entries to change, such as train.steps=100.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the result and the page go. Default: RUN-converge; of a model, runs/converge-MODEL; with --depths, "
        "runs/converge-TASK.",
    ),
]
Depths = Annotated[
    str | None, typer.Option("--depths", help="Train networks of these numbers of layers over the same time.")
]
Seeds = Annotated[int | None, typer.Option("--seeds", help="With --depths: the number of seeds. Default: 1.")]
Schemes = Annotated[
    str | None,
    typer.Option("--schemes", help="Of a run or a model: schemes of its own fields, separated by commas."),
]
Substeps = Annotated[
    str | None, typer.Option("--substeps", help="Of a run or a model: sub-steps of each layer. Default: 1,2,4,8.")
]
Steps = Annotated[
    str | None,
    typer.Option("--steps", help="Of a run or a model: factors of the step. Default: from 0.25 to 4 by the root of 2."),
]
Examples = Annotated[int | None, typer.Option("--examples", help="Of a run: validation examples. Default: 256.")]
Text = Annotated[
    Path | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help='Of a model: texts, one a line; in a .jsonl file objects with "text". Default: eight that come along.',
    ),
]
Tokens = Annotated[int | None, typer.Option("--tokens", help="Of a model: tokens of each text. Default: 64.")]


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
    text: Text = None,
    tokens: Tokens = None,
    engine: EngineOption = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Ask whether a network is close to an equation.

    \b
    Example:
      splitstep converge runs/digits
      splitstep converge runs/digits --schemes lie,strang,rk4 --substeps 1,2,4,8 --steps 0.5,1,2,4
      splitstep converge some-org/some-model --text prompts.txt
      splitstep converge --task digits --depths 3,6,12,24,48

    Of a run: how its output and accuracy change with the scheme, the sub-steps and the step length, the local error of
    each layer, and how close the network is to its continuous limit. Of a pretrained model: how its loss per token
    changes with them and with layers merged, and whether it is a discretised flow. With --depths: whether deeper
    networks over the same time approach a limit. If interrupted, the same command continues: finished runs are kept.
    """
    given, command = list(words or []), shlex.join(context.obj)
    grid, other = Grid(schemes, substeps, steps), {"text": text, "tokens": tokens}
    if depths is not None:
        refuse({**grid._asdict(), "examples": examples, **other}, "is for a run or a model", "--depths")
        deepen(given, task, depths, seeds, out, engine, data, as_json, command)
    elif len(given) != 1 or task is not None or seeds is not None:
        raise ValueError(
            "converge takes one run or model, as in `splitstep converge runs/digits`, or --depths, as in `splitstep "
            "converge --task digits --depths 3,6,12,24`."
        )
    elif is_run(Path(given[0])):
        refuse(other, "is for a pretrained model", "the run")
        discretise(Path(given[0]), out, grid, examples, data, as_json, command)
    else:
        refuse({"examples": examples, "data": data}, "is for a run of splitstep", "the model")
        discretise_model(given[0], out, grid, text, tokens, as_json, command)


class Grid(NamedTuple):
    """What is tried, as it was typed."""

    schemes: str | None
    substeps: str | None
    steps: str | None


def refuse(options: Mapping[str, object], why: str, instead: str) -> None:
    """Refuse options that do not go with something else."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name} {why}: leave it out, or leave out {instead}.")


def is_run(path: Path) -> bool:
    from ..training.directory import RunDirectory

    return path.is_dir() and RunDirectory(path).is_run()


def deepen(
    words: list[str],
    task: str | None,
    depths: str,
    seeds: int | None,
    out: Path | None,
    engine: str,
    data: Path | None,
    as_json: bool,
    command: str,
) -> None:
    """Run the study of growing depth and write its page."""
    seeds = checked_count(1 if seeds is None else seeds)
    name, document = document_of("converge", words, task)
    from ..studies.converge.limit import continuous_limit, read_depths

    recipe = recipe_for(task, name, document)
    layers = read_depths(depths)
    out = Path("runs") / f"converge-{recipe.task}" if out is None else out
    check_free(out, "limit")
    output = Output(as_json, out)
    numbers = range(recipe.train.seed, recipe.train.seed + seeds)
    result = continuous_limit(recipe, layers, numbers, out, engine=engine, data=data, command=command)
    output.emit_result(result)


def discretise(
    run: Path, out: Path | None, grid: Grid, examples: int | None, data: Path | None, as_json: bool, command: str
) -> None:
    """Run the study of a trained network and write its page."""
    from ..experiments.plan import split_schemes
    from ..studies.converge import discretisation as study
    from ..training.progress import counting

    named = run if run.name else run.resolve()  # "." has no name
    out = named.parent / f"{named.name}-converge" if out is None else out
    check_free(out, "discretisation")
    chosen = split_schemes(grid.schemes) if grid.schemes else []
    counts = study.SUBSTEPS if grid.substeps is None else study.read_substeps(grid.substeps)
    factors = study.FACTORS if grid.steps is None else study.read_factors(grid.steps)
    many = study.EXAMPLES if examples is None else examples
    result = study.discretisation(
        run, chosen, counts, factors, many, data, command, counting("converge", unit="passes")
    )
    output = Output(as_json, out).open()
    output.emit_result(result)


def discretise_model(
    name: str, out: Path | None, grid: Grid, text: Path | None, tokens: int | None, as_json: bool, command: str
) -> None:
    """Run the study of a pretrained model and write its page."""
    from ..experiments.plan import split_schemes
    from ..opening import open_model
    from ..opening.texts import default_texts, read_texts
    from ..studies.converge import discretisation
    from ..studies.converge import discretised_flow as study
    from ..training.progress import counting

    out = Path("runs") / f"converge-{Path(name).resolve().stem}" if out is None else out
    check_free(out, "discretised-flow")
    chosen = split_schemes(grid.schemes) if grid.schemes else []
    counts = study.SUBSTEPS if grid.substeps is None else discretisation.read_substeps(grid.substeps)
    factors = study.FACTORS if grid.steps is None else discretisation.read_factors(grid.steps)
    texts = default_texts() if text is None else read_texts(text)
    many = study.TOKENS if tokens is None else tokens
    shown = [counting(f"converge{what}", unit=unit) for what, unit in (("", "ways"), (", local errors", "layers"))]
    result = study.discretised_flow(open_model(name), texts, many, chosen, counts, factors, command, *shown)
    output = Output(as_json, out).open()
    output.emit_result(result)


def check_free(out: Path, study: str) -> None:
    """Refuse a directory that holds something else than a result of this study."""
    from ..support.documents import read_json

    Output(False, out).check()
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out.")
    if not (out / "result.json").exists():
        if out.is_dir() and any(out.iterdir()) and not (out / "runs").is_dir():
            raise ValueError(f"{out} holds other files: name a new directory with --out.")
        return
    try:
        found = read_json(out / "result.json").get("study")
    except ValueError:
        found = None
    if found != study:
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out.")
