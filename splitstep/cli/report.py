"""The verb that draws results again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .options import Json
from .output import Output

if TYPE_CHECKING:
    from ..studies import Study


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
    from ..report.tables import to_terminal

    if as_markdown and (as_json or out):
        raise ValueError("--markdown prints a table and nothing else: leave out --json and --out.")
    if only_losses and not as_markdown:
        raise ValueError("--losses prints a Markdown table, and the page has it anyway: add --markdown.")
    if first and not (as_markdown or out):
        raise ValueError("--against leaves what the comparison wrote as it is: add --markdown, or --out DIR.")
    found = [_read(directory, first) for directory in directories]
    if as_markdown:
        sys.stdout.write(_markdown(found, "losses" if only_losses else ""))
        return
    if len(found) > 1 and (as_json or out):
        raise ValueError(f"{len(found)} directories at once have no single document: leave out --json and --out.")
    output = Output(as_json, out).open()
    for one in found:
        page = one.study.write_page(one.result, out or one.directory)
        output.emit(one.document, lambda one=one: to_terminal(one.study.tables(one.result)))
        print(f"Report: {page}", file=sys.stderr)


class _Found(NamedTuple):
    """A result that was read, and where."""

    directory: Path
    document: Any
    study: Study[Any]
    result: Any


def _read(directory: Path, first: str | None) -> _Found:
    """The result in a directory; with differences to a scheme that is not its first, if one is named."""
    from ..studies import study_of

    file = directory / "result.json"
    if not file.is_file():
        raise ValueError(f"{directory} has no result.json: name a directory that `splitstep compare` wrote.")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{file} is damaged: run `splitstep compare` again; finished runs are kept.") from None
    study = study_of(document, str(file))
    result = study.read(document, str(file))
    if first is None:
        return _Found(directory, document, study, result)
    if study.against is None:
        raise ValueError(f"{file} has no differences between schemes: leave out --against.")
    turned = study.against(result, first)
    return _Found(directory, turned.document(), study, turned)


def _markdown(found: Sequence[_Found], only: str) -> str:
    """The tables of all results, study by study; if a name is given, those of that name."""
    from ..report.tables import EVERYWHERE, to_markdown

    tables = []
    for study in dict.fromkeys(one.study for one in found):
        tables += study.all_tables([(one.directory.absolute().name, one.result) for one in found if one.study == study])
    chosen = [table for table in tables if (table.name == only if only else table.detail == EVERYWHERE)]
    if not chosen:
        raise ValueError(f"There is no table of {only} in these results: leave out --{only}.")
    return "\n".join(map(to_markdown, chosen))
