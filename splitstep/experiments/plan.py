"""The runs of a study: schemes x arms x settings of a sweep x seeds, each with its recipe and its folder. An arm is a
name with what differs from the recipe.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..recipe import ABLATE, Recipe, read_assignments
from ..scheme import Scheme, with_diffusion, with_projections, without_residuals
from ..schemes import name_of, scheme
from ..support.registry import Registry
from ..support.typed import check_entries, nearest, read_as
from ..support.words import split_list
from ..tasks import Task
from ..training.directory import RunDirectory
from ..training.networks import check_bytes, cost_of
from .experiment import Setting

FULL = "full"
Role = Literal["", "tune", "null"]  # what a run is for: to be compared, to choose a rate, to show the noise
APART = {"null": 20_000}  # how far a run's own seed is from that of its batches
Assignments = Mapping[str, Any]  # entries of the recipe, such as {"model.norm": "none"}
Row = tuple[str, str, str, Setting]  # a block, a scheme, an arm and a setting


@dataclass(frozen=True)
class AblateOptions:
    """The section `ablate` of a recipe: arms of its own by name, learning rates to try, and how many seeds."""

    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    seeds: int | None = None


def changed_scheme(change: Callable[[Scheme], Scheme]) -> Callable[[Recipe], Assignments]:
    """An arm that differs in the scheme."""
    return lambda recipe: {"scheme": str(change(recipe.scheme))}


ARMS: Registry[Callable[[Recipe], Assignments]] = Registry(
    "arm",
    {
        FULL: lambda recipe: {},
        "no-residual": changed_scheme(without_residuals),
        "no-norm": lambda recipe: {"model.norm": "none"},
        "neither": lambda recipe: {"model.norm": "none", **changed_scheme(without_residuals)(recipe)},
        "post": changed_scheme(with_projections),
        "sandwich": lambda recipe: {"model.norm_at": "both"},
        "diffusion": changed_scheme(with_diffusion),
    },
)
PAPER = (FULL, "no-residual", "no-norm", "neither")  # the arms of the paper's claims
FIXED = ("task", "match", "reference", "train.lr", "train.seed", "train.probe_batch", "probes")  # as the study has them


def read_ablate(document: Mapping[str, Any], where: str) -> AblateOptions:
    """The section `ablate` of a recipe's document, checked; the defaults if there is none."""
    section = document.get(ABLATE)
    if section is None:
        return AblateOptions()
    if not isinstance(section, Mapping):
        raise ValueError(f"{where}: {ABLATE} is {section!r}, and needs entries of its own such as {ABLATE}.seeds=3")
    check_entries(section, AblateOptions.__dataclass_fields__, f"{where}: {ABLATE}")
    options = read_as(AblateOptions, dict(section), f"{where}: {ABLATE}")
    for name in options.arms:
        if name in ARMS:
            raise ValueError(f"{where}: there is an arm {name} already: give your own another name")
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise ValueError(f"{where}: an arm is called {name!r}: use letters, digits, - and _ only")
    return options


def check_names(names: Sequence[str], option: str, such_as: str) -> None:
    """Refuse an empty name among those that an option lists."""
    if not names or not all(names):
        raise ValueError(f"{option} {','.join(names)!r} has an empty entry: write {option} {such_as}")


def find_arms(
    names: Sequence[str], recipe: Recipe, own: Mapping[str, Assignments] | None = None
) -> dict[str, Assignments]:
    """What the arms of these names change in a recipe, the full one first, which all others are compared with."""
    check_names(names, "--arms", "full,no-norm")
    custom, wanted = dict(own or {}), [FULL, *(name for name in names if name != FULL)]
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"the arm {name} is listed twice: name each arm once")
        if name not in custom and name not in ARMS:
            known = [*ARMS, *custom]
            hint = nearest(name, known) or ":"
            raise ValueError(f'there is no arm "{name}"{hint} the arms are {", ".join(known)}')
    return {name: custom[name] if name in custom else fitted(name, recipe) for name in wanted}


def fitted(name: str, recipe: Recipe) -> Assignments:
    """What the arm of this name changes in a recipe; one that makes no sense there is refused."""
    try:
        return ARMS[name](recipe)
    except ValueError as error:
        raise ValueError(f"the arm {name} does not fit the recipe: {error}") from None


def recipe_of(recipe: Recipe, arm: str, assignments: Assignments) -> Recipe:
    """The recipe of an arm."""
    known = recipe.document()
    for key in assignments:
        section = key.partition(".")[0] if "." in key else ""
        if key in FIXED or section == "data":
            raise ValueError(f"the arm {arm} sets {key}, which must be the same for all arms: leave it out")
        if section and not isinstance(known.get(section), Mapping):
            raise ValueError(f"the arm {arm} sets {key}: use entries such as scheme, model.norm or train.clip")
    return recipe.changed(assignments, f"the arm {arm}")


def recipes_of(recipe: Recipe, arms: Mapping[str, Assignments]) -> dict[str, Recipe]:
    """The recipe of each arm by name; an arm that changes nothing is refused."""
    found = {arm: recipe_of(recipe, arm, assignments) for arm, assignments in arms.items()}
    for (one, own), (other, its) in combinations(found.items(), 2):
        if own == its:
            raise ValueError(f"the arms {one} and {other} are the same for this recipe: leave one of them out")
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
