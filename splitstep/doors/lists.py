"""Doors to what is there: the recipes, tasks and arms of the package, what is installed, and stored results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..recipes import FOLDER, recipe_names, suggestion
from ..support.documents import read_json
from .common import check_new, written
from .door import door

if TYPE_CHECKING:
    from ..experiments.result import Result
    from ..experiments.study import Study
    from ..report.tables import Table
    from ..studies.checkup import Checkup
    from .results import Listing


@door
def recipes(name: str | None = None, *, markdown: bool = False, out: Path | None = None) -> Listing | str:
    """List the recipes of the package: what each trains, how large it is and how long a run took.

    Example:
      splitstep recipes
      splitstep train digits train.steps=500 --out runs/digits
      splitstep recipes digits > mine.yaml && splitstep train mine.yaml --out runs/mine

    Parameters:
    name NAME: Print this recipe's YAML, to be copied and changed.
    out DIR: Also write the result to DIR/result.json.
    """
    if name is None:
        from ..studies.catalogue import listed_recipes

        return shown("recipes", listed_recipes, markdown, out)
    if markdown or out is not None:
        raise ValueError(f"recipes {name} prints a YAML file: leave out --markdown, --json and --out.")
    if name not in recipe_names():
        raise ValueError(f"There is no recipe {name!r} in the package. {suggestion(name)}")
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


@door
def tasks(*, markdown: bool = False, out: Path | None = None) -> Listing | str:
    """List the tasks: what each is, how much data it has and how to get them.

    Example:
      splitstep tasks
      splitstep compare --task digits --schemes lie,macaron --seeds 3 --out runs/digits

    Parameters:
    out DIR: Also write the result to DIR/result.json.
    """
    from ..studies.catalogue import listed_tasks

    return shown("tasks", listed_tasks, markdown, out)


@door
def arms(*, markdown: bool = False, out: Path | None = None) -> Listing | str:
    """List published modifications of a Transformer, each an arm of a comparison, with their papers.

    Example:
      splitstep arms
      splitstep compare --text my.txt --arms lie,swiglu,rms --minutes 10

    Besides these, an arm is a scheme, FILE.py:NAME, or the config.json of a causal model; entries of the recipe may
    follow, as in "lie model.norm=rms".

    Parameters:
    out DIR: Also write the result to DIR/result.json.
    """
    from ..studies.catalogue import listed_arms

    return shown("arms", listed_arms, markdown, out)


def shown(kind: str, listed: Callable[[], tuple[list[Any], Table]], markdown: bool, out: Path | None) -> Listing | str:
    """The entries of one kind, or their table as Markdown."""
    if markdown and out:
        raise ValueError("--markdown only prints a table: leave out --json and --out.")
    from ..report.tables import to_markdown
    from .results import Listing

    check_new(out)
    entries, table = listed()
    return to_markdown(table) if markdown else written(Listing(kind, entries, table), out)


class Stored(NamedTuple):
    """A result, the directory that it was read from, and the page that was written, if one was."""

    directory: Path
    study: Study[Any]
    result: Result
    page: Path | None = None


@door
def doctor(*, data: Path | None = None, out: Path | None = None) -> Checkup:
    """Show what is installed: versions, the GPU, threads, folders of data and caches, and what could be added.

    Example:
      splitstep doctor
      splitstep doctor --json

    Parameters:
    out DIR: Also write the result to DIR/result.json.
    """
    check_new(out)
    from ..studies.checkup import checkup

    return written(checkup(data), out)


@door
def report(
    *directories: Path,
    markdown: bool = False,
    out: Path | None = None,
    against: str | None = None,
    losses: bool = False,
) -> list[Stored] | str:
    """Write report.html again from result.json, without training.

    Example:
      splitstep report runs/digits
      splitstep report runs/digits runs/listops --markdown
      splitstep report runs/digits --against macaron --markdown
      splitstep report runs/digits --losses --markdown

    Parameters:
    directories DIR: What a study wrote.
    markdown: Only print the verdict and the tables, as Markdown.
    out DIR: Write result.json and report.html to DIR instead.
    against SCHEME: With --markdown or --out: show differences to this scheme, not the first. Not for translators.
    losses: With --markdown: only the losses in training, validation and test.
    """
    if markdown and out:
        raise ValueError("--markdown only prints tables: leave out --json and --out.")
    if losses and not markdown:
        raise ValueError("--losses prints a Markdown table, which the page always has: add --markdown.")
    if against and not (markdown or out):
        raise ValueError("--against does not change what the comparison wrote: add --markdown, or --out DIR.")
    if not directories:
        raise ValueError("Missing directory: name one that a study wrote, as in `splitstep report runs/digits`.")
    found = [stored(directory, against) for directory in directories]
    if markdown:
        return as_markdown(found, "losses" if losses else "")
    if len(found) > 1 and out:
        raise ValueError(f"--json and --out need one directory, not {len(found)}: leave them out, or name one.")
    check_new(out)
    return [one._replace(page=one.result.save(out) if out else one.result.save_page(one.directory)) for one in found]


def stored(directory: Path, first: str | None) -> Stored:
    """The result in a directory; if a scheme is named, with differences to it."""
    from ..experiments.study import study_of

    file = directory / "result.json"
    if not file.is_file():
        inside = sorted(str(one.parent) for one in directory.glob("*/result.json"))
        such = f", such as {inside[0]}" if inside else ""
        raise ValueError(
            f"{directory} has no result.json: name a folder that `splitstep compare` or another study wrote{such}."
        )
    document = read_json(file, "anything", "run `splitstep compare` again; finished runs are kept")
    study = study_of(document, str(file))
    result = study.read(document, str(file))
    if first is None:
        return Stored(directory, study, result)
    if study.against is None:
        raise ValueError(f"{file} has no differences between schemes: leave out --against.")
    return Stored(directory, study, study.against(result, first))


def as_markdown(found: Sequence[Stored], only: str) -> str:
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
