"""The verbs that list what comes with the package: recipes and tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..recipes import FOLDER, recipe_names, suggestion
from .options import Json, Out
from .output import Output

if TYPE_CHECKING:
    from ..report.tables import Table

Markdown = Annotated[bool, typer.Option("--markdown", help="Only print a Markdown table.")]


def recipes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print this recipe's YAML, to be copied and changed.")
    ] = None,
    as_markdown: Markdown = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """List the recipes of the package: what each trains, how large it is and how long a run took.

    \b
    Example:
      splitstep recipes
      splitstep train digits train.steps=500 --out runs/digits
      splitstep recipes digits > mine.yaml && splitstep train mine.yaml --out runs/mine
    """
    if name is None:
        from ..studies.catalogue import listed_recipes, recipes_table

        _emit("recipes", listed_recipes, recipes_table, Output(as_json, out), as_markdown)
    elif as_markdown or as_json or out is not None:
        raise ValueError(f"recipes {name} prints a YAML file: leave out --markdown, --json and --out.")
    elif name not in recipe_names():
        raise ValueError(f"There is no recipe {name!r} in the package. {suggestion(name)}")
    else:
        sys.stdout.write((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))


def tasks(as_markdown: Markdown = False, as_json: Json = False, out: Out = None) -> None:
    """List the tasks: what each is, how much data it has and how to get them.

    \b
    Example:
      splitstep tasks
      splitstep compare --task digits --schemes lie,macaron --seeds 3 --out runs/digits
    """
    from ..studies.catalogue import listed_tasks, tasks_table

    _emit("tasks", listed_tasks, tasks_table, Output(as_json, out), as_markdown)


def _emit(
    kind: str,
    find: Callable[[], Sequence[Any]],
    tabulate: Callable[[Any], Table],
    output: Output,
    as_markdown: bool,
) -> None:
    """Print what is found as a table, as Markdown or as JSON."""
    from ..report.tables import to_markdown, to_terminal

    if as_markdown and (output.as_json or output.out):
        raise ValueError("--markdown only prints a table: leave out --json and --out.")
    output.open()
    entries = find()
    if as_markdown:
        sys.stdout.write(to_markdown(tabulate(entries)))
    else:
        output.emit({kind: entries}, lambda: to_terminal([tabulate(entries)]))
