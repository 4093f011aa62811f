"""The directory of the study, which belongs to one recipe and two models: what was judged there is not others'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...distillation.cache import is_cache
from ...support.documents import first_difference, flat, read_json
from ...support.files import is_leftover, write_atomically
from ...support.typed import json_text, plain, read_as
from ...support.words import listed
from ...training import read_recipe
from ...training.directory import refuse_other_files

FILE, WEIGHTS = "study.json", "weights.json"
CACHE = "teacher"  # the folder of what the teacher shows, unless the recipe names another
OWN = ("objective.method", "train.seed")  # in which the runs of a study differ


class Weights(NamedTuple):
    """The hashes of the weights that all runs share: the teacher's, and the student's before training."""

    teacher: str
    student: str


def check_directory(out: Path, recipe: Mapping[str, Any]) -> None:
    """Refuse the directory of a run, of another study, and of the same study with another recipe."""
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    file, result = out / FILE, out / "result.json"
    if result.is_file() and read(result).get("study") != "distil":
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out")
    if not file.is_file():
        if not any(out.glob("*/*/judged.json")):  # an older version, and other programs, judge without a recipe
            refuse_other_files(out, may_precede)
        return
    if other := first_difference(shared(read(file)), shared(recipe)):
        raise ValueError(f"{out} holds a comparison with {other}: name a new directory with --out")


def may_precede(path: Path) -> bool:
    """Whether a killed command may have left this before it noted its recipe: the teacher reads before."""
    return is_leftover(path) or (path.name == CACHE and is_cache(path))


def claim(out: Path, recipe: Mapping[str, Any]) -> None:
    """Note in the directory what its runs share, so that only the same command continues."""
    check_directory(out, recipe)
    if not (out / FILE).is_file():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / FILE, json_text(dict(recipe)))


def left_out(out: Path, methods: Sequence[str], seeds: Sequence[int]) -> str:
    """The line that says what the result in the directory has and the next one has not; empty if there is nothing."""
    file = out / "result.json"
    before = read(file) if file.is_file() else {}
    rows = [row["method"] for row in before.get("rows", ()) if row["method"] not in methods]
    numbers = [f"seed {seed}" for seed in before.get("seeds", ()) if seed not in seeds]
    if not rows and not numbers:
        return ""
    again = f": {before['command']}" if before.get("command") else ""
    return (
        f"{file} is now of fewer runs, without {listed([*rows, *numbers])}. What is in the folder stays, and the "
        f"larger command gives it back{again}"
    )


def check_weights(out: Path, now: Weights) -> None:
    """Refuse models whose weights have changed under their names: seeds of two starts would be taken for those of one,
    and students would be judged by two teachers."""
    for which, sha256 in kept_weights(out):
        here = getattr(now, which)
        if sha256 != here:
            raise ValueError(
                f"{out} began with other weights of the {which} (sha256 {sha256[:12]}, here {here[:12]}): restore "
                "those, or name a new directory with --out"
            )


def kept_weights(out: Path) -> Iterator[tuple[str, str]]:
    """The models that the directory began with, by their hashes. Each finished run has that of its start, too."""
    if (out / WEIGHTS).is_file():
        yield from read_as(Weights, read(out / WEIGHTS), str(out / WEIGHTS))._asdict().items()
    for file in sorted(out.glob("runs/*/result.json")):
        start = read(file).get("start")
        if isinstance(start, dict) and "sha256" in start:
            yield "student", start["sha256"]


def claim_weights(out: Path, now: Weights) -> None:
    """Note in the directory which weights its runs share, so that it continues only with the same."""
    check_weights(out, now)
    if not (out / WEIGHTS).is_file():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / WEIGHTS, json_text(plain(now)))


def read(file: Path) -> dict[str, Any]:
    try:
        return read_json(file)
    except ValueError:
        raise ValueError(f"{file} is damaged: name a new directory with --out, or delete this one") from None


def shared(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs have in common, by names with dots. Entries that an older version did not write have their
    defaults."""
    entries = dict(flat(read_recipe(recipe, FILE).document()))
    return {name: value for name, value in entries.items() if name not in OWN}
