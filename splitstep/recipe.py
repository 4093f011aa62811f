"""Recipes: what to train, on which data and how. Their text is read once, key by key; from then on they are values.

Reading a recipe needs no torch, unless it names probes or what another package adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import yaml

from .hints import recipe_meant, refuse_elsewhere, word_meant
from .options import FORMAT_1, TrainOptions, check_int64, converted, entry_names, errors_at, named_today, read_options
from .own_letters import check_portable, sources_of
from .recipes import find_recipe, read_about
from .schemes import SchemeEntry, label
from .shape import shape_of
from .sources import BlockSource, ConfigSource, checked_block, checked_config, read_block, read_config
from .support.documents import Loader, read_yaml
from .support.registry import Registry
from .support.typed import check_entries, plain, read_as
from .support.words import one_line
from .tableau import TABLEAUX
from .tasks import TASKS

if TYPE_CHECKING:
    from .models import SplitstepConfig
    from .tasks import Task

Entries = Mapping[str, Any]  # of a recipe by name, such as {"scheme": "A F", "train.lr": 1e-3}

NETWORKS: Registry[Any] = Registry(
    "network",
    paths={
        "scheme": "splitstep.training.networks:SCHEME",
        "pretrained": "splitstep.opening.network:PRETRAINED",
        "block": "splitstep.opening.others:BLOCK",
        "config": "splitstep.opening.others:CONFIG",
    },
)  # see training.networks.Network
OBJECTIVES: Registry[Any] = Registry(
    "objective",
    paths={"task": "splitstep.training.objective:of_the_task", "distil": "splitstep.distillation.objective:distil"},
)  # see training.objective.Factory


@dataclass(frozen=True)
class Recipe:
    """One training run. `model` is the shape of the `reference` scheme's network, and `scheme` gets a twin of equal
    cost; with `match: none` it is the scheme's own shape."""

    task: str
    scheme: SchemeEntry = SchemeEntry()  # noqa: RUF009  # a descriptor
    reference: SchemeEntry = SchemeEntry()  # noqa: RUF009  # a descriptor
    match: Literal["parameters", "flops", "none"] = "parameters"
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    train: TrainOptions = field(default_factory=TrainOptions)
    objective: str | dict[str, Any] = "task"  # a name, or a name and options
    probes: tuple[str, ...] = ()
    network: str | dict[str, Any] = "scheme"  # how the model is made: of a scheme, as `start` names it, or a source
    start: str | None = None  # a run, or a folder that save_pretrained wrote, whose weights the run starts from
    sources: dict[str, dict[str, str]] | None = None  # of letters that no package has; nobody types them

    def __post_init__(self) -> None:
        objective_options(self.objective)
        if self.probes:
            from .probes import PROBES

            for name in self.probes:
                PROBES.find(name)
        fields = (*self.scheme.fields, *self.reference.fields)
        object.__setattr__(self, "sources", sources_of(fields, self.sources))

    @property
    def network_name(self) -> str:
        """How the model is made, as `NETWORKS` calls it."""
        return self.network if isinstance(self.network, str) else self.network["name"]

    def check_elsewhere(self) -> None:
        """Refuse what worker processes cannot have: letters, tasks and tableaux that are defined in this one alone."""
        check_portable(self.sources or ())
        TASKS.check_elsewhere(self.task)
        for tableau in {part.tableau.name for _, part in self.scheme.substeps}:
            TABLEAUX.check_elsewhere(tableau)

    @cached_property
    def source(self) -> BlockSource | ConfigSource | None:
        """What others wrote of the network; None if they wrote nothing."""
        return None if isinstance(self.network, str) else source_of(self.network)

    def document(self) -> dict[str, Any]:
        """The recipe as JSON and YAML store it."""
        return plain(self) | {name: str(getattr(self, name)) for name in SCHEMES}

    def changed(self, entries: Entries, where: str = "the recipe") -> Recipe:
        """The recipe with other entries, such as {"train.lr": 1e-4}; they are checked as those of a file are."""
        return read_recipe(with_entries(self.document(), entries), where)

    @cached_property
    def options(self) -> Any:
        """The task's options that `data` describes."""
        return read_options(TASKS[self.task].Options, self.data, "data")

    def load_task(self, data: Path | None = None, trained: Path | None = None) -> Task:
        """The task with its data. Text is read with the tokenizer of the model that the run starts from, or of the one
        that it `trained`, if there is one."""
        kind, model = TASKS[self.task], self.start if trained is None else str(trained)
        return kind(self.options if model is None else kind.with_tokenizer_of(self.options, model), data)

    def config(self, task: Task) -> SplitstepConfig:
        """The config of the network: the reference's shape, or its twin if the scheme is another."""
        from .models import KINDS
        from .models.cost import twin

        kind, shape = KINDS.find(task.model).config, dictated(task)
        for key in shape.keys() & self.model.keys():
            if key != "max_positions" or self.model[key] < shape[key]:  # more positions than needed are harmless
                raise ValueError(
                    f"model.{key} is {self.model[key]}, and the task has {shape[key]}: leave it out of the recipe"
                )
        if self.scheme == self.reference or self.match == "none":
            return kind(**{**shape, **self.model, "scheme": self.scheme})
        reference = kind(**{**shape, **self.model, "scheme": self.reference})
        return twin(reference, self.scheme, self.match, task.length)


RENAMED = {"max_length": "max_positions", "labels": "num_labels"}


def dictated(task: Task) -> dict[str, Any]:
    """The config entries that the task's data decide."""
    names = {"id2label": dict(enumerate(task.labels)), "label2id": {name: i for i, name in enumerate(task.labels)}}
    return {RENAMED.get(key, key): value for key, value in task.shape.items()} | (names if task.labels else {})


SCHEMES = ("scheme", "reference")  # a row's name and its notation mean the same run
SECTIONS, ABOUT = ("data", "model", "train"), "about"
ABLATE = "ablate"  # a section that `splitstep ablate` reads; it is not part of a run
OURS = frozenset({"scheme", "format", "matched", "sources"})  # config entries that a recipe's `model` does not take


def read_recipe(document: Entries, where: str) -> Recipe:
    """The recipe of a parsed document, with every key and type checked."""
    if not isinstance(document, Mapping):
        raise ValueError(f"{where} is not a recipe: it needs entries such as `task: digits`")
    hints = get_type_hints(Recipe)
    refuse_elsewhere(document, [*hints, ABOUT, ABLATE], where)
    check_entries(document, [*hints, ABOUT, ABLATE], where)
    if ABOUT in document:  # no part of the recipe: it changes nothing about a run
        read_about(document[ABOUT], where)
    if "task" not in document:
        raise ValueError(f"{where} names no task: add `task: NAME`, one of {', '.join(TASKS)}")
    given = {key: document[key] for key in hints if key in document and key not in SECTIONS}
    kinds = hints | dict.fromkeys(SCHEMES, str)
    values = {key: read_as(kinds[key], value, f"{where}: {key}") for key, value in given.items()}
    with errors_at(where):
        task = TASKS.find(values["task"])
        if isinstance(given := values.get("network"), dict):
            values["network"] = {"name": given.get("name"), **plain(source_of(given))}
        elif given is not None:
            NETWORKS.check(given)
    data, model, train = (read_section(name, document.get(name), where) for name in SECTIONS)
    with errors_at(f"{where}: model"):
        model = converted(model)
    with errors_at(f"{where}: data"):
        data = named_today(task.Options, data)
    for name, kind, given in (("data", task.Options, data), ("train", TrainOptions, train)):
        refuse_elsewhere(given, entry_names(kind), f"{where}: {name}", "option")
    read_options(task.Options, data, f"{where}: data")
    recipe = Recipe(**values, data=data, model=model, train=read_options(TrainOptions, train, f"{where}: train"))
    if recipe.network_name in CHECKS:
        CHECKS[recipe.network_name](task.model, recipe, where)
    return recipe


def read_section(name: str, given: Any, where: str) -> dict[str, Any]:
    """The entries of a section; none may be a whole number that is too large to compute with."""
    section = {} if given is None else given
    if not isinstance(section, Mapping):
        such = {"data": f"data.train={section}", "model": "model.layers=6", "train": "train.steps=100"}[name]
        raise ValueError(f"{where}: {name} is {section!r}, and needs entries of its own such as {such}")
    for key, value in section.items():
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, int):
                check_int64(f"{where}: {name}.{key}", number)
    return dict(section)


def objective_options(given: str | Entries) -> tuple[str, dict[str, Any]]:
    """The name of the objective that a recipe asks for, and the recipe's options for it."""
    options: dict[str, Any] = {"name": given} if isinstance(given, str) else {**given}
    name = options.get("name")
    if not isinstance(name, str):
        raise ValueError(f"objective is {options}, and needs a name: one of {', '.join(OBJECTIVES)}")
    OBJECTIVES.check(name)
    del options["name"]
    return name, options


def objective_text(given: str | Entries) -> str:
    """An objective with its options, for people."""
    if isinstance(given, str):
        return given
    return ", ".join([str(given.get("name")), *(f"{name} {value}" for name, value in given.items() if name != "name")])


def check_scheme_network(kind: str, recipe: Recipe, where: str) -> None:
    """Refuse entries that the task's model does not have, and values that are wrong for every task."""
    shape = shape_of(kind)
    refuse_elsewhere(recipe.model, [*shape.entries()], f"{where}: the model")
    check_entries(recipe.model, [name for name in shape.entries() if name not in OURS], f"{where}: the model")
    with errors_at(f"{where}: model"):
        shape(**recipe.model, scheme=recipe.scheme if recipe.match == "none" else recipe.reference)


def check_pretrained_network(kind: str, recipe: Recipe, where: str) -> None:
    """Refuse what a model that `start` names cannot have. Defaults pass, for a run's own recipe has all entries."""
    usual = Recipe(recipe.task)
    for name in ("scheme", "reference", "match"):
        if (given := getattr(recipe, name)) != getattr(usual, name):
            known = given if name == "match" else label(given)
            raise ValueError(
                f"{where}: {name} is {known}, and a pretrained network is the model that start names, with its own "
                f"layers: leave {name} out"
            )
    check_entries(recipe.model, ["layers"], f"{where}: a pretrained model")
    if "layers" in recipe.model:
        read_as(int, recipe.model["layers"], f"{where}: model.layers")
    if kind != "causal" or recipe.start is None:
        raise ValueError(f"{where}: a pretrained network needs a causal task, and start: the model to begin with")
    if recipe.objective == "task":
        raise ValueError(f"{where}: a pretrained network needs an objective, such as objective: {{name: distil}}")


def source_of(given: Entries) -> BlockSource | ConfigSource:
    """The source that a recipe's network has; a missing text is read from the file."""
    name, entries = given.get("name"), {key: value for key, value in given.items() if key != "name"}
    if name not in SOURCES or not isinstance(entries.get("file"), str):
        needed = "network: {name: block, file: FILE.py:NAME} or {name: config, file: FILE.json}"
        raise ValueError(f"network is {one_line(str(dict(given)), 80)}, and needs the form of {needed}")
    kind, read, check = SOURCES[name]
    hints = get_type_hints(kind)
    check_entries(entries, hints, f"network {name}")
    return read(entries["file"]) if len(entries) == 1 else check(read_as(kind, entries, "network"))


SOURCES: dict[Any, tuple[Any, Callable[[str], Any], Callable[[Any], Any]]] = {
    "block": (BlockSource, read_block, checked_block),
    "config": (ConfigSource, read_config, checked_config),
}


def check_source(kind: str, recipe: Recipe, where: str) -> None:
    """Refuse a network of others for a task that needs another kind of model, and weights to start from."""
    if recipe.source is None:
        name = recipe.network_name
        raise ValueError(f"{where}: network: {name} needs a file: type network: {{name: {name}, file: FILE}}")
    if kind != "causal":
        raise ValueError(
            f"{where}: {recipe.source.file} is a causal language model, and task {recipe.task} needs a model of kind "
            f"{kind}: use a task such as text or stdlib"
        )
    if recipe.start is not None:
        raise ValueError(f"{where}: {recipe.source.file} starts with weights of its own: leave out start")
    check_scheme_network(kind, recipe, where)


CHECKS: dict[str, Callable[[str, Recipe, str], None]] = {
    "scheme": check_scheme_network, "pretrained": check_pretrained_network, "block": check_source,
    "config": check_source,
}  # fmt: skip  # of a recipe for a kind of model, by network; they need no torch

TEXTS = ("scheme", "reference", "data.template")  # whose values may look like YAML, such as "Q: {prompt} A: "


def read_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """The entries that assignments such as `a.b=c` change, as `Recipe.changed` takes them. Values are read as YAML, but
    for some that are text, unless they stand in quotes."""
    entries = dict[str, Any]()
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")) or path.count(".") > (3 if path.startswith("model.letters.") else 1):
            said = f"{assignment!r} is not of the form key=value or section.key=value{word_meant(assignment)}"
            raise ValueError(f"override {said}")
        try:
            is_text = path in TEXTS and text[:1] not in ("'", '"')
            entries[path] = text if is_text else yaml.load(text, Loader)
        except yaml.YAMLError:
            raise ValueError(f"override {assignment!r}: {text!r} is not a YAML value") from None
    return entries


def with_entries(document: Entries, entries: Entries) -> dict[str, Any]:
    """The document with other entries, of a section or outside of all."""
    changed = {name: data_today(document, one) if name == "data" else one for name, one in document.items()}
    for path, value in entries.items():
        section, _, key = path.partition(".")
        if section == "model" and key in FORMAT_1:
            key = ".".join(("letters", *FORMAT_1[key]))
        if section == "data" and key:
            [key] = data_today(document, {key: value})
        if key:
            there = {} if changed.get(section) is None else changed[section]
            if not isinstance(there, Mapping):
                raise ValueError(f"{path}: {section} has no entries of its own")
            value = with_entries(there, {key: value})
        changed[section] = value
    return changed


def data_today(document: Entries, data: Any) -> Any:
    """Entries of `data` by the names that the options of the document's task have now."""
    row = TASKS.get(str(document.get("task")))
    return named_today(row.Options, data) if row is not None and isinstance(data, Mapping) else data


def override(document: Entries, assignments: Sequence[str]) -> dict[str, Any]:
    """The document with assignments such as `a.b=c` applied."""
    return with_entries(document, read_assignments(assignments))


def load_recipe(path: str, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file, or the package's own of that name, with overrides."""
    return read_recipe(load_document(path, assignments), path)


def load_document(path: str, assignments: Sequence[str] = ()) -> Any:
    """The document in a YAML file, or in the package's own recipe of that name, with overrides; not checked yet."""
    if meant := recipe_meant(path):
        raise ValueError(meant)
    document = read_yaml(find_recipe(path), path, "anything")
    return override(document, assignments) if isinstance(document, Mapping) else document
