"""The recipes of the package, one YAML file each. They are found by name, and listed, without importing torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..support.documents import read_yaml
from ..support.typed import check_entries, read_as
from ..support.words import did_you_mean

FOLDER = Path(__file__).parent
SEE = "See `splitstep recipes`, or give the path of a YAML file."


@dataclass(frozen=True)
class RecipeNote:
    """What a recipe trains and how large that is; how long a run of it took, on which machine, and which file says so.
    A recipe that was never timed has no `seconds`."""

    what: str
    parameters: int | None = None
    seconds: float | None = None
    machine: str | None = None
    measured: str | None = None


class Listed(NamedTuple):
    """A recipe of the package: its name, its task and what it says about itself."""

    name: str
    task: str
    about: RecipeNote


def recipe_names() -> list[str]:
    """The names of all recipes of the package."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def find_recipe(name: str) -> Path:
    """The file of that path, else the recipe of that name in the package."""
    if Path(name).is_file():
        return Path(name)
    if name not in recipe_names():
        raise ValueError(f"there is no recipe {name!r}, neither as a file nor by name. {suggestion(name)}")
    return FOLDER / f"{name}.yaml"


def suggestion(name: str) -> str:
    """The end of an error about a wrong name. What the path of a file calls it counts, as in recipes/digits.yaml."""
    return f"{did_you_mean(Path(name).stem, recipe_names())} {SEE}"


def list_recipes() -> list[Listed]:
    """All recipes of the package."""
    found = {name: read_yaml(FOLDER / f"{name}.yaml", name) for name in recipe_names()}
    return [Listed(name, one["task"], read_about(one["about"], name)) for name, one in found.items()]


def read_about(entries: Any, where: str) -> RecipeNote:
    """The `about` section of a recipe, checked."""
    if isinstance(entries, Mapping):
        check_entries(entries, RecipeNote.__dataclass_fields__, f"{where}: about")
    return read_as(RecipeNote, entries, f"{where}: about")


def recipe_of_task(task: str) -> str:
    """The name of the package's recipe for a task: the one of that name, else the only one."""
    tasks = {one.name: one.task for one in list_recipes()}
    found = [name for name, its_task in tasks.items() if its_task == task]
    if tasks.get(task) == task or len(found) == 1:
        return task if task in found else found[0]
    if found:
        raise ValueError(f"The task {task} has several recipes: give one of {', '.join(found)} instead of --task.")
    raise ValueError(f"There is no recipe for a task {task!r}. {did_you_mean(task, sorted(set(tasks.values())))} {SEE}")
