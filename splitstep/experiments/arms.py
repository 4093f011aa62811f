"""Arms of an ablation or a comparison: a name, and what differs from the recipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

from ..recipe import ABLATE, Recipe
from ..scheme import Scheme, with_diffusion, with_projections, without_residuals
from ..schemes import scheme
from ..support.registry import Registry
from ..support.typed import check_entries, nearest, read_as

FULL = "full"
Assignments = Mapping[str, Any]  # entries of the recipe, such as {"model.norm": "none"}


class Arm(NamedTuple):
    """A name, and the entries of the recipe that differ."""

    name: str
    assignments: Assignments


@dataclass(frozen=True)
class AblateOptions:
    """The section `ablate` of a recipe: arms of its own by name, learning rates to try, and how many seeds."""

    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    seeds: int | None = None


def changed_scheme(change: Callable[[Scheme], Scheme]) -> Callable[[Recipe], Assignments]:
    """An arm that differs in the scheme."""
    return lambda recipe: {"scheme": str(change(scheme(recipe.scheme)))}


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


def check_arms(names: Sequence[str]) -> list[str]:
    """The names of arms; none may be empty."""
    return check_names(names, "--arms", "full,no-norm")


def check_names(names: Sequence[str], option: str, such_as: str) -> list[str]:
    """The names that an option lists; none may be empty."""
    if not names or not all(names):
        raise ValueError(f"{option} {','.join(names)!r} has an empty entry: write {option} {such_as}")
    return list(names)


def find_arms(names: Sequence[str], recipe: Recipe, own: Mapping[str, Assignments] | None = None) -> list[Arm]:
    """The arms of these names for a recipe, the full one first, which all others are compared with."""
    custom, wanted = dict(own or {}), [FULL, *(name for name in names if name != FULL)]
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"the arm {name} is listed twice: name each arm once")
        if name not in custom and name not in ARMS:
            known = [*ARMS, *custom]
            hint = nearest(name, known) or ":"
            raise ValueError(f'there is no arm "{name}"{hint} the arms are {", ".join(known)}')
    return [Arm(name, custom[name] if name in custom else fitted(name, recipe)) for name in wanted]


def fitted(name: str, recipe: Recipe) -> Assignments:
    """What the arm of this name changes in a recipe; one that makes no sense there is refused."""
    try:
        return ARMS[name](recipe)
    except ValueError as error:
        raise ValueError(f"the arm {name} does not fit the recipe: {error}") from None


def recipe_of(recipe: Recipe, arm: Arm) -> Recipe:
    """The recipe of an arm."""
    known = recipe.document()
    for key in arm.assignments:
        section = key.rpartition(".")[0]
        if key in FIXED or section == "data":
            raise ValueError(f"the arm {arm.name} sets {key}, which must be the same for all arms: leave it out")
        if section and not isinstance(known.get(section), Mapping):
            raise ValueError(f"the arm {arm.name} sets {key}: use entries such as scheme, model.norm or train.clip")
    return recipe.changed(arm.assignments, f"the arm {arm.name}")


def recipes_of(recipe: Recipe, arms: Sequence[Arm]) -> dict[str, Recipe]:
    """The recipe of each arm by name; an arm that changes nothing is refused."""
    found = {arm.name: recipe_of(recipe, arm) for arm in arms}
    for (one, own), (other, its) in combinations(found.items(), 2):
        if own == its:
            raise ValueError(f"the arms {one} and {other} are the same for this recipe: leave one of them out")
    return found
