"""The verb that writes pages and tables from stored results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..support.documents import read_json
from .options import Json
from .output import Output

if TYPE_CHECKING:
    from ..experiments.study import Study


def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="What a study wrote.")],
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Only print the verdict and the tables, as Markdown.")
    ] = False,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write result.json and report.html to DIR instead.")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="SCHEME",
            help="With --markdown or --out: show differences to this scheme, not the first. Not for translators.",
        ),
    ] = None,
    only_losses: Annotated[
        bool, typer.Option("--losses", help="With --markdown: only the losses in training, validation and test.")
    ] = False,
) -> None:
    """Write report.html again from result.json, without training.

    \b
    Example:
      splitstep report runs/digits
      splitstep report runs/digits runs/listops --markdown
      splitstep report runs/digits --against macaron --markdown
      splitstep report runs/digits --losses --markdown
    """
    if as_markdown and (as_json or out):
        raise ValueError("--markdown only prints tables: leave out --json and --out.")
    if only_losses and not as_markdown:
        raise ValueError("--losses prints a Markdown table, which the page always has: add --markdown.")
    if first and not (as_markdown or out):
        raise ValueError("--against does not change what the comparison wrote: add --markdown, or --out DIR.")
    from ..report.drawing import document_to_terminal

    found = [_read(directory, first) for directory in directories]
    if as_markdown:
        sys.stdout.write(_markdown(found, "losses" if only_losses else ""))
        return
    if len(found) > 1 and (as_json or out):
        raise ValueError(f"--json and --out need one directory, not {len(found)}: leave them out, or name one.")
    output = Output(as_json, out).open()
    for one in found:
        page = one.result.save_page(out or one.directory)
        output.emit(one.document, lambda one=one: document_to_terminal(one.result.document()))
        print(f"Report: {page}", file=sys.stderr)


class _Found(NamedTuple):
    """A result, and the directory that it was read from."""

    directory: Path
    document: Any
    study: Study[Any]
    result: Any


def _read(directory: Path, first: str | None) -> _Found:
    """The result in a directory; if a scheme is named, with differences to it."""
    from ..experiments.study import study_of

    file = directory / "result.json"
    if not file.is_file():
        raise ValueError(f"{directory} has no result.json: name one that `splitstep compare` or another study wrote.")
    try:
        document = read_json(file, "anything")
    except ValueError:
        raise ValueError(f"{file} is damaged: run `splitstep compare` again; finished runs are kept.") from None
    study = study_of(document, str(file))
    result = study.read(document, str(file))
    if first is None:
        return _Found(directory, document, study, result)
    if study.against is None:
        raise ValueError(f"{file} has no differences between schemes: leave out --against.")
    result = study.against(result, first)
    return _Found(directory, result.json(), study, result)


def _markdown(found: Sequence[_Found], only: str) -> str:
    """The verdicts and tables of all results, study by study; only the tables of one name, if it is given."""
    from ..report.drawing import documents_to_markdown
    from ..report.tables import to_markdown

    parts = list[str]()
    for study in dict.fromkeys(one.study for one in found):
        named = [(one.directory.absolute().name, one.result) for one in found if one.study == study]
        tables = study.tables(named)
        if only:
            parts += [to_markdown(one) for one in tables if one.name == only]
        else:
            parts.append(documents_to_markdown([(name, result.document()) for name, result in named], tables))
    if not parts:
        raise ValueError(f"There is no table of {only} in these results: leave out --{only}.")
    return "\n".join(parts)
