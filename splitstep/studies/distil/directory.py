"""The directory of the study, which belongs to one recipe: what was judged there is kept, and is not another's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...support.files import write_atomically
from ...support.typed import json_text
from ...training import read_recipe

FILE = "study.json"
OWN = ("objective.method", "train.seed")  # in which the runs of a study differ


def check_directory(out: Path, recipe: Mapping[str, Any]) -> None:
    """Refuse the directory of a run, of another study, and of the same study with another recipe."""
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    file, result = out / FILE, out / "result.json"
    if result.is_file() and read(result).get("study") != "distil":
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out")
    if not file.is_file():
        return
    stored, given = shared(read(file)), shared(recipe)
    for name in sorted(stored.keys() | given.keys()):
        if stored.get(name) != given.get(name):
            raise ValueError(
                f"{out} holds a comparison with {name}={stored.get(name)}, and here it is {given.get(name)}: name a "
                "new directory with --out"
            )


def claim(out: Path, recipe: Mapping[str, Any]) -> None:
    """Note in the directory what its runs share, so that only the same command continues."""
    check_directory(out, recipe)
    if not (out / FILE).is_file():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / FILE, json_text(dict(recipe)))


def read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    except ValueError:
        pass
    raise ValueError(f"{file} is damaged: name a new directory with --out, or delete this one")


def shared(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs have in common, by names with dots. Entries that an older version did not write have their
    defaults."""
    entries = dict(flat(read_recipe(recipe, FILE).document()))
    return {name: value for name, value in entries.items() if name not in OWN}


def flat(entries: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
