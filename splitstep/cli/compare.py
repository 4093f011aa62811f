"""The verbs for comparisons: run one, and draw it again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Data, Json, NewDirectory
from .output import Output, empty_table, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..studies.compare.result import Comparison
    from ..training import Recipe

MOST_SEEDS = 10_000  # a run each


def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE] [KEY=VALUE]...", help="A YAML file, and entries of it to change."),
    ] = None,
    *,
    context: typer.Context,
    task: Annotated[
        str | None, typer.Option("--task", help="A task by name, with the recipe that it comes with.")
    ] = None,
    schemes: Annotated[str, typer.Option("--schemes", help="Rows' names or notations, with commas between.")],
    seeds: Annotated[int, typer.Option("--seeds", help="How many: 5 means 0 to 4, or from train.seed on.")] = 5,
    out: NewDirectory,
    match: Annotated[str | None, typer.Option("--match", help="What is equal: parameters, flops or none.")] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="KEY=VALUE,...", help="Values to try for each scheme, chosen on validation."),
    ] = None,
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
    from ..studies.compare.plan import read_sweep, split_schemes
    from ..studies.compare.study import compare as study
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
    output.emit(result.document(), lambda: _comparison_table(result))
    _draw(result, out)


def _recipe_of(words: list[str], task: str | None, match: str | None) -> Recipe:
    """The recipe that the words name, or the one that comes with the task."""
    from ..tasks import TASKS
    from ..training import load_recipe

    file = words.pop(0) if words and "=" not in words[0] else None
    if match is not None:
        words.append(f"match={match}")
    if file is None and task is None:
        raise ValueError("Missing task: give --task digits, or a recipe such as recipes/digits.yaml.")
    if file is None and task not in TASKS:
        raise ValueError(f"Unknown task {task!r}.{nearest(str(task), list(TASKS))}")
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
    from ..report import MissingPackage, write_report

    try:
        print(f"Report: {write_report(result, out)}", file=sys.stderr)
    except MissingPackage as error:
        print(f"No report.html: {error}", file=sys.stderr)


def _comparison_table(result: Comparison) -> RenderableType:
    from rich.console import Group
    from rich.table import Column
    from rich.text import Text

    from ..notation import shortened
    from ..tasks.task import title_of

    metric, first = _narrow(title_of(result.metric)), result.rows[0].name
    heads = [f"{metric}, test\n\u00b1 95%", f"against {first}\n\u00b1 95%", "valid", "parameters\nFLOPs/token"]
    table = empty_table([Column("scheme", min_width=8, overflow="fold")], [*heads, "seconds\ntokens/s"])
    for row in result.rows:
        rate = "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
        cells = [
            "\n".join(filter(None, [shortened(row.name), *map(_setting, row.setting), row.lost])),
            result.plus_minus(row.test),
            result.plus_minus(row.difference, signed=True) if row is not result.rows[0] else "",
            "-" if row.valid is None else result.shown(row.valid.mean),
            f"{row.cost.parameters:,}\n{row.cost.flops:,}",
            f"{row.seconds:,.1f}\n{rate}",
        ]
        table.add_row(*map(Text, cells))
    parts: list[RenderableType] = [table, Text(result.note())]
    if result.scored():
        parts += [Text("\nTest sets\n"), _test_sets_table(result), Text(result.test_note())]
    return Group(*parts)


def _test_sets_table(result: Comparison) -> RenderableType:
    """Every test split: scores over seeds, and differences with their intervals."""
    from rich.table import Column
    from rich.text import Text

    from ..notation import shortened
    from ..schemes import label
    from ..support.words import counted

    metric, *others = result.main_scores()
    heads = [f"{_narrow(metric.name)}\n\u00b1 95%", f"against {result.rows[0].name}\n95%", "seeds\np < 0.05"]
    texts = [Column(head, min_width=8, overflow="fold") for head in ("test set", "scheme")]
    table = empty_table(texts, [*heads, *(one.name for one in others)])
    for one in result.tests:
        cells = [
            f"{one.split}\n{counted(one.lines, 'line')}",
            shortened(label(one.scheme)),
            result.score_text(one.score(metric.key)),
            result.test_difference(one),
            result.told_apart(one),
            *(result.score_text(one.score(other.key)) for other in others),
        ]
        table.add_row(*map(Text, cells))
    return table


def _narrow(head: str) -> str:
    """A head of several short lines."""
    import textwrap

    return textwrap.fill(head, 13)


def _setting(text: str) -> str:
    """An override, on two lines where it is long."""
    return text if len(text) <= 16 else text.replace(".", ".\n", 1)
