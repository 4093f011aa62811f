"""What comes with the package, as tables: its recipes and tasks with their sizes, and the shelf of modifications."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from ..recipes import RecipeNote, list_recipes
from ..report.tables import Cell, Code, Column, Table
from ..shelf import SHELF, Paper
from ..tasks import TASKS
from ..tasks.task import DataNote

NOT_SAID = "not said"
HOW = {"by hand": "put there by hand", "your own": "your own files"}  # where the table's words are others


class ListedRecipe(NamedTuple):
    """A recipe: what it says about itself, and the data of its task."""

    name: str
    task: str
    about: RecipeNote
    data: DataNote | None


class ListedTask(NamedTuple):
    """A task: what it is, the kind of its models, its data and the package's recipes for it."""

    name: str
    what: str
    model: str
    data: DataNote | None
    recipes: tuple[str, ...]


class ListedArm(NamedTuple):
    """A modification: what it is, what it sets in a recipe, its paper, and whether it costs more FLOPs."""

    name: str
    what: str
    entries: dict[str, Any]
    paper: Paper
    costs_flops: bool


def listed_recipes() -> tuple[list[ListedRecipe], Table]:
    """All recipes of the package, and a table with a row for each."""
    entries = [ListedRecipe(*one, TASKS[one.task].note) for one in list_recipes()]
    note = "Times are of one run of the scheme lie, with its evaluations; `splitstep recipes --json` names their files."
    records = [
        {
            Column("recipe", text=True, whole=True): one.name,
            Column("trains", text=True): one.about.what,
            Column("parameters"): f"{one.about.parameters:,}" if one.about.parameters else "by your text",
            Column("data", text=True): _data(one.data),
            Column("a run took", text=True): _time(one.about),
        }
        for one in entries
    ]
    return entries, Table.of(records, notes=[note, "Take one by name: splitstep train digits --out runs/digits"])


def listed_arms() -> tuple[list[ListedArm], Table]:
    """All modifications of the shelf, and a table with a row for each."""
    entries = [ListedArm(name, one.what, dict(one.entries), one.paper, one.costs_flops) for name, one in SHELF.items()]
    records = [
        {
            Column("arm", text=True, whole=True): Code(one.name),
            Column("what it is", text=True): f"{one.what}{' (with --match flops)' if one.costs_flops else ''}",
            Column("paper", text=True): (one.paper.title, f"{one.paper.year}, arXiv {one.paper.arxiv}"),
        }
        for one in entries
    ]
    note = (
        'Other arms: a scheme, FILE.py:NAME, the config.json of a causal model, or entries as in "lie model.norm=rms".'
    )
    example = "Compare them: splitstep compare --text my.txt --arms lie,swiglu,rms"
    return entries, Table.of(records, notes=[note, example])


def listed_tasks() -> tuple[list[ListedTask], Table]:
    """All tasks, those of other packages, too, and a table with a row for each."""
    recipes = list_recipes()
    users = {name: tuple(one.name for one in recipes if one.task == name) for name in TASKS}
    entries = [ListedTask(name, one.what, one.model, one.note, users[name]) for name, one in TASKS.items()]
    records = [
        {
            Column("task", text=True, whole=True): one.name,
            Column("what it is", text=True): one.what,
            Column("model", text=True, whole=True): one.model,
            Column("data", text=True): _data(one.data),
            Column("files", text=True): _files(one.data),
            Column("from", text=True): _origin(one.data),
            Column("recipes", text=True): ", ".join(one.recipes) or "none",
        }
        for one in entries
    ]
    note = "Files are looked for in --data, else in $SPLITSTEP_DATA, else in ./data."
    return entries, Table.of(records, notes=[note, "Their names and addresses: splitstep tasks --json"])


def _data(note: DataNote | None) -> Cell:
    return (note.size, f"({HOW.get(note.how, note.how)})") if note else NOT_SAID


def _files(note: DataNote | None) -> str:
    """The one file, or how many there are in which folders."""
    files = note.files if note else ()
    if len(files) < 2:
        return "".join(files)
    folders = sorted({str(Path(file).parent) for file in files})
    return f"{len(files)} in {' and '.join(f'{folder}/' for folder in folders)}"


def _origin(note: DataNote | None) -> str:
    """The hosts of the addresses, which are too long for a table, or the first words if there is none."""
    origin = note.origin if note else ""
    hosts = dict.fromkeys(re.findall(r"https?://([^/]+)", origin))
    return ", ".join(hosts) or origin.partition(",")[0]


def _time(about: RecipeNote) -> Cell:
    if about.seconds is None:
        return "not measured"
    seconds = f"{about.seconds:,.0f} s" if about.seconds < 100 else f"{about.seconds / 60:,.0f} min"
    return (seconds, f"({about.machine})") if about.machine else seconds
