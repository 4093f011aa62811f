"""Arms: what each changes in a recipe. No torch here.

An arm of ablations has a name. One of `compare` is a text: a scheme, a modification from the shelf or of one's own,
FILE.py:NAME, or a config.json, which may be followed by entries of the recipe, as in "lie model.norm=rms".
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ..recipe import ABLATE, Recipe, read_assignments
from ..scheme import Scheme, with_diffusion, with_projections, without_residuals
from ..schemes import SCHEMES, scheme
from ..shelf import SHELF, Modification
from ..sources import AS_IS, BlockSource, ConfigSource, is_network, read_block, read_config
from ..support import words
from ..support.registry import Registry
from ..support.typed import check_entries, nearest, plain, read_as

FULL = "full"
ENTRY = re.compile(r"[a-z_]+(\.\w+)+=.*")
KINDS = {BlockSource: "block", ConfigSource: "config"}
Assignments = Mapping[str, Any]  # entries of the recipe, such as {"model.norm": "none"}
Own = Mapping[str, Assignments]  # arms of the recipe's own, by name


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
    parts = text.split()
    last = next((n for n, part in enumerate(parts) if ENTRY.fullmatch(part)), len(parts))
    name, more = " ".join(parts[:last]), read_assignments(parts[last:])
    source: Any = network_source(name)
    if source is None:
        entries = {"scheme": str(recipe.scheme), **(meaning(name, recipe, own) if name else {})}
    else:
        name, entries = source.file, {"network": {"name": KINDS[type(source)], **plain(source)}}
    return f"{name} {' '.join(parts[last:])}".strip() if more else name, {**entries, **more}


def network_source(name: str) -> BlockSource | ConfigSource | None:
    """The network that others wrote; None if the text names no file."""
    if not is_network(name):
        return None
    return read_config(name) if name.removesuffix(AS_IS).endswith(".json") else read_block(name)


def meaning(name: str, recipe: Recipe, own: Own) -> Assignments:
    """What the arm of this name changes; one that can mean two things is refused."""
    found = meanings(name, recipe, own)
    if len(found) > 1:
        ways = " or ".join(f'"{typed_as(entries)}" for {what}' for what, entries in found.items())
        raise ValueError(f'the arm "{name}" is {" and ".join(found)}: type {ways}')
    if not found:
        near = words.nearest(name, [*SCHEMES, *SHELF, *ARMS, *own])
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
