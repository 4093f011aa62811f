"""The verb that draws a result again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .compare import _comparison_table
from .options import Json
from .output import Output

if TYPE_CHECKING:
    from ..studies.compare.result import Comparison


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What `splitstep compare` wrote.")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables; draw nothing.")] = False,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write result and page there, not where they were.")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="SCHEME", help="Differences to this scheme, not to the first; not for translators."
        ),
    ] = None,
    only_losses: Annotated[
        bool, typer.Option("--losses", help="With --markdown: the losses in training and held out, and nothing else.")
    ] = False,
) -> None:
    """Draw report.html again from result.json; nothing is trained.

    \b
    Example:
      splitstep report runs/digits
      splitstep report runs/digits runs/listops --markdown
      splitstep report runs/digits --against macaron --markdown
      splitstep report runs/digits --losses --markdown
    """
    from ..report import loss_table, markdown, write_report
    from ..studies.compare.rows import against

    if as_markdown and (as_json or out):
        raise ValueError("--markdown prints a table and nothing else: leave out --json and --out.")
    if only_losses and not as_markdown:
        raise ValueError("--losses prints a Markdown table, and the page has it anyway: add --markdown.")
    if first and not (as_markdown or out):
        raise ValueError("--against leaves what the comparison wrote as it is: add --markdown, or --out DIR.")
    found = [(directory, *_read_comparison(directory)) for directory in directories]
    if first:
        turned = [(directory, against(result, first)) for directory, _, result in found]
        found = [(directory, result.document(), result) for directory, result in turned]
    if as_markdown:
        draw = loss_table if only_losses else markdown
        sys.stdout.write(draw(_named([(directory, result) for directory, _, result in found])))
        return
    if len(found) > 1 and (as_json or out):
        raise ValueError(f"{len(found)} directories at once have no single document: leave out --json and --out.")
    output = Output(as_json, out).open()
    for directory, document, result in found:
        page = write_report(result, out or directory)
        output.emit(document, lambda result=result: _comparison_table(result))
        print(f"Report: {page}", file=sys.stderr)


def _named(found: Sequence[tuple[Path, Comparison]]) -> list[tuple[str, Comparison]]:
    """Comparisons by their task, and where a task has several of them by their directory, too."""
    tasks = Counter(result.task for _, result in found)
    return [
        (result.task if tasks[result.task] == 1 else f"{result.task} ({directory.absolute().name})", result)
        for directory, result in found
    ]


def _read_comparison(directory: Path) -> tuple[Any, Comparison]:
    """The document in a directory that a comparison wrote, and what it says."""
    from ..studies.compare.result import read_comparison

    file = directory / "result.json"
    if not file.is_file():
        raise ValueError(f"{directory} has no result.json: name a directory that `splitstep compare` wrote.")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{file} is damaged: run `splitstep compare` again; finished runs are kept.") from None
    return document, read_comparison(document, str(file))
