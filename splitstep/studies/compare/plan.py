"""The runs of a comparison: schemes x settings of a sweep x seeds, each with its recipe and its folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ...models.cost import cost
from ...schemes import name_of, scheme
from ...tasks import Task
from ...training import Recipe, override, read_recipe
from ...training.directory import RunDirectory
from .result import Setting


def split_list(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]


def split_schemes(text: str) -> list[str]:
    """The schemes of a comma-separated list."""
    found = split_list(text)
    if not all(found):
        raise ValueError(f"--schemes {text!r} has an empty entry: write --schemes lie,macaron")
    return found


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
    arm: str = ""  # of an ablation: what differs from the recipe besides the scheme


def plan(recipe: Recipe, schemes: Sequence[str], seeds: Sequence[int], sweep: Sequence[Setting]) -> list[Planned]:
    """All runs, every recipe of them checked."""
    notations = [str(scheme(text)) for text in schemes]
    for position, notation in enumerate(notations):
        if notation in notations[:position]:
            raise ValueError(f"{schemes[position]!r} is listed twice: name each scheme once")
    if len(notations) < 1 or len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(f"a comparison needs schemes and different seeds; got {list(schemes)} and {list(seeds)}")
    runs = list[Planned]()
    for notation, setting in product(notations, sweep or [()]):
        own = read_recipe(override({**recipe.document(), "scheme": notation}, setting), "the recipe")
        folder = "-".join([slug(notation), *map(file_name, setting)])
        for seed in seeds:
            seeded = replace(own, train=replace(own.train, seed=seed))
            runs.append(Planned(notation, setting, seed, seeded, f"runs/{folder}-seed{seed}"))
    first = [run for run in runs if (run.scheme, run.seed) == (runs[0].scheme, runs[0].seed)]
    for position, run in enumerate(first):
        if run.recipe in [other.recipe for other in first[:position]]:
            raise ValueError(f"--sweep: {', '.join(run.setting)} repeats an earlier setting: list each once")
    return runs


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


def check_runs(runs: Sequence[Planned], out: Path, task: Task) -> list[Planned]:
    """The runs, the most expensive first, so no long one starts last.

    Refuses schemes without an equal-cost twin and folders of other runs, before anything is computed.
    """
    work: dict[tuple[str, str, Setting], int] = {}  # the same for all seeds
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    for run in runs:
        kind = (run.arm, run.scheme, run.setting)
        if kind not in work:
            work[kind] = run.recipe.train.steps * cost(run.recipe.config(task), task.length).flops
        RunDirectory(out / run.folder).holds(run.recipe.document())
    return sorted(runs, key=lambda run: -work[run.arm, run.scheme, run.setting])
