"""Arms of equal cost: the recipes that are run."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ...experiments.arms import Assignments, recipe_of
from ...experiments.plan import Entrant
from ...models.cost import Cost
from ...opening.fit import Fit, fitted
from ...opening.others import size_of
from ...recipe import Recipe
from ...tasks import Task
from ...training.networks import cost_of


class Fitted(NamedTuple):
    """An arm of equal cost: what is run, and how its cost was made equal."""

    entrant: Entrant
    fit: Fit


KNOWN: dict[str, tuple[Recipe, Fit]] = {}  # what was fitted, by what it depends on: a plan asks again and again


def fitted_arms(arms: Mapping[str, Assignments], recipe: Recipe, task: Task) -> list[Fitted]:
    """All arms at the cost of the first; networks of others also have its size, where they set none themselves."""
    first, *others = (recipe_of(recipe, name, entries) for name, entries in arms.items())
    goal, size = cost_of(first, task), size_of(first, task).items() - size_of(recipe, task).items()
    sized = [(first, Fit(None, goal, 1.0))]
    for one, entries in zip(others, list(arms.values())[1:], strict=True):
        own = {key: value for key, value in entries.items() if key.startswith("model.")}
        sized.append(fitted_once(one.changed({**dict(size), **own}) if one.source else one, goal, task))
    return [
        Fitted(Entrant(new, folder_of(name), name, alone=True), fit)
        for name, (new, fit) in zip(arms, sized, strict=True)
    ]


def fitted_once(recipe: Recipe, goal: Cost, task: Task) -> tuple[Recipe, Fit]:
    """As `fitted`; a recipe that differs in its training alone is not fitted again."""
    document = {key: value for key, value in recipe.document().items() if key not in ("train", "objective", "probes")}
    key = json.dumps([document, goal, task.length])
    if key not in KNOWN:
        KNOWN[key] = fitted(recipe, goal, task)
    new, fit = KNOWN[key]
    return replace(recipe, model=new.model, network=new.network), fit


def folder_of(name: str) -> str:
    """How the folders of an arm's runs begin; a hash stands for characters that folders do not have."""
    plain = re.sub(r"[^\w.+-]+", "_", name).strip("_")
    return plain if plain == name else f"{plain[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
