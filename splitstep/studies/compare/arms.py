"""Arms by their texts: a scheme, a modification from the shelf or of one's own, FILE.py:NAME, or a config.json. Each
may be followed by entries of the recipe, as in "lie model.norm=rms"."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from ...experiments.plan import ARMS, Assignments, Entrant, check_names, recipe_of
from ...models.cost import Cost
from ...opening.fit import Fit, fitted
from ...opening.others import check_network, size_of
from ...recipe import Recipe, read_assignments
from ...schemes import SCHEMES, scheme
from ...shelf import SHELF, Modification
from ...sources import AS_IS, read_block, read_config
from ...support.typed import plain
from ...support.words import nearest
from ...tasks import Task
from ...training.networks import cost_of

ENTRY = re.compile(r"[a-z_]+(\.\w+)+=.*")
Own = Mapping[str, Assignments]  # arms of the recipe's own, by name


class Arm(NamedTuple):
    """An arm: its name, and the entries of the recipe that it sets, among them its scheme or its network."""

    name: str
    entries: Assignments


def read_arms(texts: Sequence[str], recipe: Recipe, own: Own | None = None) -> list[Arm]:
    """The arms that texts name. One that names no network changes the scheme of the first, if that has one."""
    check_names(texts, "--arms", "lie,macaron")
    found = list[Arm]()
    for text in texts:
        based = recipe.changed({"scheme": found[0].entries.get("scheme", str(recipe.scheme))}) if found else recipe
        found.append(read_arm(text, based, own or {}))
    recipes = {one.name: recipe_of(recipe, one.name, one.entries) for one in found}
    if len(recipes) < len(found):
        names = [one.name for one in found]
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the arm {again} is listed twice: name each arm once, and each file by another name")
    for (one, its), (other, his) in combinations(recipes.items(), 2):
        if its == his:
            raise ValueError(f"the arms {one} and {other} are the same for this recipe: leave one of them out")
    return found


def read_arm(text: str, recipe: Recipe, own: Own) -> Arm:
    """The arm that one text names, of a recipe with the first arm's scheme."""
    words = text.split()
    last = next((n for n, word in enumerate(words) if ENTRY.fullmatch(word)), len(words))
    name, more = " ".join(words[:last]), read_assignments(words[last:])
    base = network_arm(name) or Arm(
        name, {"scheme": str(recipe.scheme), **(meaning(name, recipe, own) if name else {})}
    )
    shown = f"{base.name} {' '.join(words[last:])}".strip() if more else base.name
    return Arm(shown, {**base.entries, **more})


def network_arm(name: str) -> Arm | None:
    """The arm of a network that others wrote; None if the text names no file."""
    if ".py:" in name:
        source: Any = read_block(name)
        return Arm(source.file, {"network": {"name": "block", **plain(source)}})
    if name.removesuffix(AS_IS).endswith(".json"):
        source = read_config(name)
        return Arm(source.file, {"network": {"name": "config", **plain(source)}})
    return None


def meaning(name: str, recipe: Recipe, own: Own) -> Assignments:
    """What the arm of this name changes; one that can mean two things is refused."""
    found = meanings(name, recipe, own)
    if len(found) > 1:
        ways = " or ".join(f'"{typed_as(entries)}" for {what}' for what, entries in found.items())
        raise ValueError(f'the arm "{name}" is {" and ".join(found)}: type {ways}')
    if not found:
        known = [*SCHEMES, *SHELF, *ARMS, *own]
        near = nearest(name, known)
        hint = (
            f'did you mean "{near}"?' if near else "name a scheme, one of `splitstep arms`, FILE.py:NAME or FILE.json"
        )
        raise ValueError(f'there is no arm "{name}": {hint}')
    return next(iter(found.values()))


def meanings(name: str, recipe: Recipe, own: Own) -> dict[str, Assignments]:
    """All different things that a name can mean, by what it then is."""
    found = dict[str, Assignments]()
    if name in SCHEMES or not name[:1].islower() or name[1:2] == ":":
        found["a scheme"] = {"scheme": str(scheme(name))}
    if name in SHELF:
        found["a modification"] = modified(name, SHELF[name], recipe)
    elif name in ARMS:
        found["an arm of ablations"] = ARMS[name](recipe)
    if name in own:
        found["an arm of the recipe"] = dict(own[name])
    entries = list(found.values())
    return {what: one for n, (what, one) in enumerate(found.items()) if one not in entries[:n]}


def modified(name: str, one: Modification, recipe: Recipe) -> Assignments:
    """What a modification changes in a recipe."""
    if one.costs_flops and recipe.match != "flops":
        raise ValueError(f"{name} evaluates networks more than once a step, so it costs more: add --match flops")
    return {**one.entries, **({"scheme": str(one.change(recipe.scheme))} if one.change else {})}


def typed_as(entries: Assignments) -> str:
    """What to type for these entries instead of a name."""
    words = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in entries.items()]
    return " ".join(word.removeprefix("scheme=") for word in words)


class Fitted(NamedTuple):
    """An arm of equal cost: what is run, and how its cost was made equal."""

    entrant: Entrant
    fit: Fit


KNOWN: dict[str, tuple[Recipe, Fit]] = {}  # what was fitted, by what it depends on: a plan asks again and again


def fitted_arms(arms: Sequence[Arm], recipe: Recipe, task: Task) -> list[Fitted]:
    """All arms at the cost of the first; networks of others also have its size, where they set none themselves."""
    first, *others = (recipe_of(recipe, one.name, one.entries) for one in arms)
    goal, size = cost_of(first, task), size_of(first, task).items() - size_of(recipe, task).items()
    others = [
        one.changed({**dict(size), **set_by(arm)}) if one.source else one
        for arm, one in zip(arms[1:], others, strict=True)
    ]
    sized = [(first, Fit(None, goal, 1.0)), *(fitted_once(one, goal, task) for one in others)]
    return [
        Fitted(Entrant(new, folder_of(arm.name), arm.name, alone=True), fit)
        for arm, (new, fit) in zip(arms, sized, strict=True)
    ]


def set_by(arm: Arm) -> Assignments:
    """The entries of the model that an arm sets itself."""
    return {key: value for key, value in arm.entries.items() if key.startswith("model.")}


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


def check_arms(arms: Sequence[Fitted], task: Task) -> None:
    """Refuse a network of others that sees later tokens or other examples of its batch."""
    for one in arms:
        check_network(one.entrant.recipe, task)
