"""Arms by their texts: a scheme, a modification from the shelf or of one's own, FILE.py:NAME, or a config.json. Each
may be followed by entries of the recipe, as in "lie model.norm=rms"."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...experiments.plan import ARMS, Assignments, Entrant, check_names, recipe_of, recipes_of
from ...models.cost import Cost
from ...opening.fit import Fit, fitted
from ...opening.others import size_of
from ...recipe import Recipe, read_assignments
from ...schemes import SCHEMES, scheme
from ...shelf import SHELF, Modification
from ...sources import AS_IS, BlockSource, ConfigSource, read_block, read_config
from ...support.typed import plain
from ...support.words import nearest
from ...tasks import Task
from ...training.networks import cost_of

ENTRY = re.compile(r"[a-z_]+(\.\w+)+=.*")
KINDS = {BlockSource: "block", ConfigSource: "config"}
Own = Mapping[str, Assignments]  # arms of the recipe's own, by name


def read_arms(texts: Sequence[str], recipe: Recipe, own: Own | None = None) -> dict[str, Assignments]:
    """The arms that texts name, each with the entries of the recipe that it sets, among them its scheme or its network.
    One that names no network changes the scheme of the first, if that has one."""
    check_names(texts, "--arms", "lie,macaron")
    found = dict[str, Assignments]()
    for text in texts:
        first = next(iter(found.values()), {}).get("scheme", str(recipe.scheme))
        name, entries = read_arm(text, recipe.changed({"scheme": first}) if found else recipe, own or {})
        if name in found:
            raise ValueError(f"the arm {name} is listed twice: name each arm once, and each file by another name")
        found[name] = entries
    recipes_of(recipe, found)  # refuses two that are the same
    return found


def read_arm(text: str, recipe: Recipe, own: Own) -> tuple[str, Assignments]:
    """The name and the entries of the arm that one text names, of a recipe with the first arm's scheme."""
    words = text.split()
    last = next((n for n, word in enumerate(words) if ENTRY.fullmatch(word)), len(words))
    name, more = " ".join(words[:last]), read_assignments(words[last:])
    source: Any = network_source(name)
    if source is None:
        entries = {"scheme": str(recipe.scheme), **(meaning(name, recipe, own) if name else {})}
    else:
        name, entries = source.file, {"network": {"name": KINDS[type(source)], **plain(source)}}
    return f"{name} {' '.join(words[last:])}".strip() if more else name, {**entries, **more}


def network_source(name: str) -> BlockSource | ConfigSource | None:
    """The network that others wrote; None if the text names no file."""
    if ".py:" in name:
        return read_block(name)
    return read_config(name) if name.removesuffix(AS_IS).endswith(".json") else None


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
