"""The runs of a study: schemes x arms x settings of a sweep x seeds, each with its recipe and its folder."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

from ..recipe import Recipe, read_assignments
from ..schemes import name_of, scheme
from ..support.words import split_list
from ..tasks import Task
from ..training.directory import RunDirectory
from ..training.networks import check_bytes, cost_of
from .arms import FULL, Assignments, check_names, find_arms, recipe_of
from .experiment import Setting

Role = Literal["", "tune", "null"]  # what a run is for: to be compared, to choose a rate, to show the noise
APART = {"null": 20_000}  # how far a run's own seed is from that of its batches
Row = tuple[str, str, str, Setting]  # a block, a scheme, an arm and a setting


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
    alone: bool = False  # whether the arm names the row without its scheme
    budget: float = 1.0  # its steps, in those of the recipe
    role: Role = ""  # what it is for, if it is not compared itself

    @property
    def row(self) -> Row:
        """What all runs have in common that differ in the seed alone."""
        return self.block, self.scheme, self.arm, self.setting


class Entrant(NamedTuple):
    """What is compared: a recipe whose runs differ in setting, budget and seed. A row is named by its scheme and its
    arm, or by its arm alone."""

    recipe: Recipe
    folder: str  # the beginning of the names of its runs' folders
    arm: str = ""
    alone: bool = False

    @property
    def scheme(self) -> str:
        """The scheme; empty for a network that others wrote."""
        return "" if self.recipe.source else str(self.recipe.scheme)

    def runs(self, seeds: Sequence[int], setting: Setting = (), budget: float = 1.0, role: Role = "") -> list[Planned]:
        """A run for every seed. One of the null pair has the batches of its seed, but other weights and dropout."""
        own = self.recipe.changed(read_assignments(setting))
        steps, apart = max(1, round(own.train.steps * budget)), APART.get(role, 0)
        longer = "" if budget == 1 else f"x{budget:g}"
        folder = "-".join(filter(None, [self.folder, *map(file_name, setting), longer, role]))
        found = list[Planned]()
        for seed in seeds:
            batches = seed if role == "null" else own.train.batch_seed
            train = replace(own.train, seed=seed + apart, batch_seed=batches, steps=steps)
            found.append(Planned(
                self.scheme, setting, seed, replace(own, train=train), f"runs/{folder}-seed{seed}", self.arm,
                alone=self.alone, budget=budget, role=role,
            ))  # fmt: skip
        return found


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse no seeds, and the same seed twice."""
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(f"a comparison needs different seeds; got {list(seeds)}")


def entrants_of(
    recipe: Recipe,
    schemes: Sequence[str],
    arms: Sequence[str] = (FULL,),
    own_arms: Mapping[str, Assignments] | None = None,
) -> list[Entrant]:
    """Every scheme with every arm. The full arm needs no name."""
    check_names(schemes, "--schemes", "lie,macaron")
    notations = [str(scheme(text)) for text in schemes]
    for position, notation in enumerate(notations):
        if notation in notations[:position]:
            raise ValueError(f"{schemes[position]!r} is listed twice: name each scheme once")
    found = list[Entrant]()
    for notation in notations:
        based = recipe.changed({"scheme": notation})
        for arm, changes in find_arms(arms, based, own_arms).items():
            name = "" if arm == FULL else arm
            found.append(Entrant(recipe_of(based, arm, changes), "-".join(filter(None, [slug(notation), name])), name))
    return found


def plan(entrants: Sequence[Entrant], seeds: Sequence[int], sweep: Sequence[Setting]) -> list[Planned]:
    """All runs of a comparison at one budget, every recipe of them checked."""
    check_seeds(seeds)
    runs = [run for one in entrants for setting in sweep or [()] for run in one.runs(seeds, setting)]
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


def check_runs(runs: Sequence[Planned], out: Path, tasks: Mapping[str, Task], room: float = inf) -> list[Planned]:
    """The runs, the most expensive first, so no long one starts last. `tasks`: by the block of a run.

    Refuses schemes without an equal-cost twin, networks that take more than `room` bytes in training, and folders of
    other runs, before anything is computed.
    """
    work: dict[Row, int] = {}  # the same for all seeds
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    for run in runs:
        task, train = tasks[run.block], run.recipe.train
        run.recipe.check_elsewhere()
        if run.row not in work:
            found = cost_of(run.recipe, task)
            check_bytes(found.parameters, room)
            work[run.row] = train.steps * train.batch * found.flops
        RunDirectory(out / run.folder).holds(run.recipe)
    return sorted(runs, key=lambda run: -work[run.row])
