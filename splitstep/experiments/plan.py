"""The runs of a comparison: schemes x arms x settings of a sweep x seeds, each with its recipe and its folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from ..models.cost import cost
from ..recipe import Recipe, read_assignments
from ..schemes import name_of, scheme
from ..support.words import split_list
from ..tasks import Task
from ..training.directory import RunDirectory
from .arms import FULL, Assignments, check_names, find_arms, recipe_of
from .experiment import Setting

Row = tuple[str, str, str, Setting]  # a block, a scheme, an arm and a setting


def check_schemes(names: Sequence[str]) -> list[str]:
    """The names or notations of schemes; none may be empty."""
    return check_names(names, "--schemes", "lie,macaron")


def read_sweep(texts: Sequence[str]) -> list[Setting]:
    """Every combination of the swept values: ["train.lr=1e-3,3e-3"] has two settings."""
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not all(split_list(values)):
            raise ValueError(f"--sweep {text!r} is not of the form key=value,value such as train.lr=1e-3,3e-3")
        if key in ("task", "scheme", "reference", "match", "train.seed"):
            raise ValueError(f"--sweep {key}: a comparison sets {key} itself; sweep another entry, such as train.lr")
        if any(key == other[0].partition("=")[0] for other in axes):
            raise ValueError(f"--sweep {key} is given twice: list all its values in one --sweep")
        axes.append([f"{key}={value}" for value in split_list(values)])
    return [tuple(setting) for setting in product(*axes)] if axes else []


class Planned(NamedTuple):
    """A run to do."""

    scheme: str
    setting: Setting
    seed: int
    recipe: Recipe
    folder: str
    arm: str = ""  # the row that it belongs to besides its scheme, as an arm of an ablation
    block: str = ""  # its task, in a study of several

    @property
    def row(self) -> Row:
        """What all runs have in common that differ in the seed alone."""
        return self.block, self.scheme, self.arm, self.setting


def plan(
    recipe: Recipe,
    schemes: Sequence[str],
    seeds: Sequence[int],
    sweep: Sequence[Setting],
    arms: Sequence[str] = (FULL,),
    own_arms: Mapping[str, Assignments] | None = None,
) -> list[Planned]:
    """All runs, every recipe of them checked. The full arm needs no name."""
    notations = [str(scheme(text)) for text in schemes]
    for position, notation in enumerate(notations):
        if notation in notations[:position]:
            raise ValueError(f"{schemes[position]!r} is listed twice: name each scheme once")
    if len(notations) < 1 or len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(f"a comparison needs schemes and different seeds; got {list(schemes)} and {list(seeds)}")
    runs = list[Planned]()
    for notation in notations:
        based = recipe.changed({"scheme": notation})
        for arm, setting in product(find_arms(arms, based, own_arms), sweep or [()]):
            own, name = recipe_of(based, arm).changed(read_assignments(setting)), "" if arm.name == FULL else arm.name
            folder = "-".join(filter(None, [slug(notation), name, *map(file_name, setting)]))
            for seed in seeds:
                seeded = replace(own, train=replace(own.train, seed=seed))
                runs.append(Planned(own.scheme, setting, seed, seeded, f"runs/{folder}-seed{seed}", name))
    check_different([run for run in runs if run.seed == runs[0].seed])
    return runs


def check_different(runs: Sequence[Planned]) -> None:
    """Refuse two runs of the same recipe."""
    for other, run in combinations(runs, 2):
        if run.recipe == other.recipe and (run.scheme, run.arm) == (other.scheme, other.arm):
            raise ValueError(f"--sweep: {', '.join(run.setting)} repeats an earlier setting: list each once")
        if run.recipe == other.recipe:
            raise ValueError(f"--arms: {run.folder} would repeat {other.folder}: leave out one of the arms or schemes")


def file_name(assignment: str) -> str:
    """An assignment as part of a folder's name: without its section; a hash stands for other characters."""
    key, _, value = assignment.partition("=")
    text = f"{key.rpartition('.')[2]}{value}"
    plain = re.sub(r"[^\w.+-]", "", text)
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def slug(notation: str) -> str:
    """A folder's name for the scheme: its name, else its letters and a hash."""
    name = name_of(scheme(notation))
    letters = re.sub(r"[^\w@+]+", "_", notation).strip("_")[:40]
    return name or f"{letters}-{hashlib.sha256(notation.encode()).hexdigest()[:8]}"


def check_runs(runs: Sequence[Planned], out: Path, tasks: Mapping[str, Task]) -> list[Planned]:
    """The runs, the most expensive first, so no long one starts last. `tasks`: by the block of a run.

    Refuses schemes without an equal-cost twin and folders of other runs, before anything is computed.
    """
    work: dict[Row, int] = {}  # the same for all seeds
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    for run in runs:
        task, train = tasks[run.block], run.recipe.train
        if run.row not in work:
            work[run.row] = train.steps * train.batch * cost(run.recipe.config(task), task.length).flops
        RunDirectory(out / run.folder).holds(run.recipe)
    return sorted(runs, key=lambda run: -work[run.row])
