"""Recipes: what to train, on which data and how, as YAML plus `a.b=c` overrides, checked key by key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from math import inf
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml

from ..models import KINDS, SplitstepConfig
from ..models.cost import twin
from ..probes import PROBES
from ..recipes import find_recipe, read_about
from ..schemes import scheme
from ..support.documents import read_yaml
from ..support.typed import nearest, plain, read_as
from ..support.words import counted
from ..support.yaml_text import parse
from ..tasks import TASKS, Task
from ..tasks.options import at_least, at_most, check_int64, errors_at, read_options
from .network import NETWORKS
from .objective import find_objective


@dataclass(frozen=True)
class TrainOptions:
    """How to optimise. `batch` counts examples over all processes and accumulated parts."""

    steps: int = 1000
    batch: int = 64
    accumulate: int = 1
    lr: float = 1e-3
    schedule: Literal["cosine", "linear", "inverse-sqrt", "constant"] = "cosine"
    warmup: int = 100
    warmup_from: float = 0.0  # the learning rate at which the warm-up begins
    final: float = 0.0  # the share of lr that cosine and linear schedules end with
    weight_decay: float = 0.01
    betas: tuple[float, ...] = (0.9, 0.98)
    eps: float = 1e-8
    clip: float = 1.0  # the largest norm of a gradient; 0: no limit
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    mode: Literal["auto", "eager", "compile", "capture", "compile+capture"] = "auto"
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"  # auto: fsdp under `accelerate launch --use_fsdp`, else ddp
    seed: int = 0
    log_every: int = 20
    evaluate_every: int = 0  # steps; 0: ten times a run
    evaluate_batch: int = 0  # examples; 0: as in training
    keep: Literal["best", "average"] = "best"  # which weights the run ends with
    best: Literal["metric", "loss"] = "metric"  # the validation figure that "best" goes by
    average: int = 10  # snapshots
    average_every: int = 0  # steps, counted back from the last; 0: at each evaluation
    probe_every: int = 0  # steps; 0: at each evaluation
    probe_batch: int = 0  # examples of the validation split that probes see; 0: 64
    checkpoint_seconds: float = 60.0
    keep_checkpoints: int = 2  # the newest, so a run survives if one is damaged; 0: all

    def __post_init__(self) -> None:
        for name, low in LEAST.items():
            at_least(name, getattr(self, name), low)
        for name, high in MOST.items():
            at_most(name, getattr(self, name), high)
        for name, words in RANGES.items():
            check_range(name, getattr(self, name), words)
        if len(self.betas) != 2:
            raise ValueError(f"option betas is {list(self.betas)}, and needs two numbers such as [0.9, 0.98]")
        for beta in self.betas:
            check_range("betas", beta, "at least 0 and below 1")
        if self.batch % self.accumulate:
            raise ValueError(f"option batch is {self.batch}, and must be divisible by accumulate, {self.accumulate}")
        if self.warmup_from > self.lr:
            raise ValueError(f"option warmup_from is {self.warmup_from}, and must be at most lr, {self.lr}")
        check_snapshots(self)


LEAST = {
    "steps": 1, "batch": 1, "accumulate": 1, "log_every": 1, "warmup": 0, "seed": 0, "evaluate_every": 0,
    "evaluate_batch": 0, "average": 1, "average_every": 0, "keep_checkpoints": 0, "probe_every": 0, "probe_batch": 0,
}  # fmt: skip
MOST = {"batch": 10**7, "average": 10**6}  # both are listed in memory before training begins
RANGES = {
    "lr": "above 0 and finite", "eps": "above 0 and finite", "warmup_from": "at least 0 and finite",
    "weight_decay": "at least 0 and finite", "clip": "at least 0 and finite",
    "checkpoint_seconds": "at least 0 and finite", "final": "at least 0 and at most 1",
}  # fmt: skip
INSIDE: dict[str, Callable[[float], bool]] = {
    "above 0 and finite": lambda x: 0 < x < inf,
    "at least 0 and finite": lambda x: 0 <= x < inf,
    "at least 0 and at most 1": lambda x: 0 <= x <= 1,
    "at least 0 and below 1": lambda x: 0 <= x < 1,
}


def check_range(name: str, value: float, words: str) -> None:
    """Refuse a number outside an interval, which is given in words."""
    if not INSIDE[words](value):
        raise ValueError(f"option {name} is {value}, and needs a number {words}")


def evaluation_steps(options: TrainOptions) -> int:
    """The steps between two evaluations."""
    return options.evaluate_every or max(1, options.steps // 10)


def evaluates(options: TrainOptions, step: int) -> bool:
    """Whether a run is evaluated after this step: at regular intervals, and after the last."""
    return step == options.steps or step % evaluation_steps(options) == 0


def records(options: TrainOptions, step: int) -> bool:
    """Whether probes are recorded after this step: with each evaluation or, if `probe_every` is given, at such
    intervals, before the first update (step 0) and after the last."""
    if options.probe_every == 0:
        return step > 0 and evaluates(options, step)
    return step == options.steps or step % options.probe_every == 0


def snapshot_steps(options: TrainOptions) -> tuple[int, ...]:
    """The steps whose weights are averaged at the end of a run, ascending; none if it keeps the best."""
    if options.keep == "best":
        return ()
    if options.average_every == 0:
        every = evaluation_steps(options)
        back = chain([options.steps], range((options.steps - 1) // every * every, 0, -every))
    else:
        back = iter(range(options.steps, 0, -options.average_every))
    return tuple(reversed(list(islice(back, options.average))))


SNAPSHOTS_SPAN = 5  # an error proposes snapshots in the last fifth of a run, much as the recipes take them


def check_snapshots(options: TrainOptions) -> None:
    """Refuse more snapshots than the run has; the error says what to add to the command."""
    fit = len(snapshot_steps(options))
    if options.keep == "average" and fit < options.average:
        apart = f"every {counted(options.average_every, 'step')}" if options.average_every else "at each evaluation"
        nearer = max(1, options.steps // (SNAPSHOTS_SPAN * options.average))
        all_fit = f"train.average_every={nearer} (all {options.average} near the end) or "
        raise ValueError(
            f"option average is {options.average}, and {options.steps} steps hold only {counted(fit, 'snapshot')} "
            f"{apart}: add {all_fit if options.average <= options.steps else ''}train.average={fit}"
        )


@dataclass(frozen=True)
class Recipe:
    """One training run. `model` is the shape of the `reference` scheme's network, and `scheme` gets a twin of equal
    cost; with `match: none` it is the scheme's own shape."""

    task: str
    scheme: str = "lie"
    reference: str = "lie"
    match: Literal["parameters", "flops", "none"] = "parameters"
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    train: TrainOptions = field(default_factory=TrainOptions)
    objective: str | dict[str, Any] = "task"  # a name, or a name and options
    probes: tuple[str, ...] = ()
    network: str = "scheme"  # how the model is made: of a scheme, or the one that `start` names
    start: str | None = None  # a run, or a folder that save_pretrained wrote, whose weights the run starts from

    def __post_init__(self) -> None:
        find_objective(self.objective)
        for name in self.probes:
            PROBES.find(name)
        for name in ("scheme", "reference"):  # a row's name and its notation mean the same run
            object.__setattr__(self, name, str(scheme(getattr(self, name))))

    def document(self) -> dict[str, Any]:
        """The recipe as JSON and YAML store it."""
        return plain(self)

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
        kind = KINDS.find(task.model).config
        shape = dictated(task)
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


SECTIONS, ABOUT = ("data", "model", "train"), "about"
ABLATE = "ablate"  # a section that `splitstep ablate` reads; it is not part of a run
OURS = frozenset({"scheme", "format", "matched"})  # config entries that a recipe's `model` does not take


def read_recipe(document: Mapping[str, Any], where: str) -> Recipe:
    """The recipe of a parsed document, with every key and type checked."""
    if not isinstance(document, Mapping):
        raise ValueError(f"{where} is not a recipe: it needs entries such as `task: digits`")
    names = [f.name for f in dataclasses.fields(Recipe)]
    check_entries(document, [*names, ABOUT, ABLATE], where)
    if ABOUT in document:  # no part of the recipe: it changes nothing about a run
        read_about(document[ABOUT], where)
    values = read_entries({key: document[key] for key in names if key in document and key not in SECTIONS}, where)
    sections = {name: {} if document.get(name) is None else document[name] for name in SECTIONS}
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            raise ValueError(f"{where}: {name} is {section!r}, and needs entries of its own such as {name}.key=value")
        check_numbers(section, f"{where}: {name}")
    kind = TASKS[values["task"]]
    options = read_options(kind.Options, sections["data"], f"{where}: data")
    with errors_at(where):
        network = NETWORKS.find(values.get("network", Recipe.network))
    network.check(kind.model, {**values, "model": sections["model"]}, where)
    train = read_options(TrainOptions, sections["train"], f"{where}: train")
    recipe = Recipe(**values, data=dict(sections["data"]), model=dict(sections["model"]), train=train)
    vars(recipe)["options"] = options
    return recipe


def check_entries(given: Mapping[str, Any], names: Sequence[str], owner: str) -> None:
    """Refuse entries that are not among the names."""
    for key in given:
        if key not in names:
            known = f"its entries are {', '.join(names)}"
            raise ValueError(f'{owner} has no entry "{key}"{nearest(str(key), names, known)}')


def check_numbers(section: Mapping[str, Any], where: str) -> None:
    """Refuse whole numbers that are too large to compute with."""
    for key, value in section.items():
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, int):
                check_int64(f"{where}.{key}", number)


def read_entries(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The entries outside the sections, checked."""
    if "task" not in values:
        raise ValueError(f"{where} names no task: add `task: NAME`, one of {', '.join(TASKS)}")
    hints = get_type_hints(Recipe)
    read = {key: read_as(hints[key], value, f"{where}: {key}") for key, value in values.items()}
    with errors_at(where):
        TASKS.find(read["task"])
    return read


def check_model(kind: str, given: Mapping[str, Any], notation: str, where: str) -> None:
    """Refuse entries that the task's model does not have, and values that are wrong for every task."""
    names = [name for name in KINDS[kind].config.entries() if name not in OURS]
    check_entries(given, names, f"{where}: the model")
    with errors_at(f"{where}: model"):
        KINDS[kind].config(**given, scheme=notation)


TEXTS = ("scheme", "reference", "data.template")  # whose values may look like YAML, such as "Q: {prompt} A: "
QUOTES = ("'", '"')


def override(document: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The document with assignments such as `a.b=c` applied; the values are read as YAML, but for some that are text,
    unless they stand in quotes."""
    out: dict[str, Any] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in document.items()}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        *section, key = path.strip().split(".")
        if not equals or not all((*section, key)) or len(section) > 1:
            raise ValueError(f"override {assignment!r} is not of the form key=value or section.key=value")
        try:
            value = text if path.strip() in TEXTS and text[:1] not in QUOTES else parse(text)
        except yaml.YAMLError:
            raise ValueError(f"override {assignment!r}: {text!r} is not a YAML value") from None
        entries = out
        for name in section:
            entries = out[name] = {} if out.get(name) is None else out[name]
        if not isinstance(entries, dict):
            raise ValueError(f"override {assignment!r}: {section[0]} has no entries of its own")
        entries[key] = value
    return out


def load_recipe(path: str, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file, or the package's own of that name, with overrides."""
    return read_recipe(load_document(path, assignments), path)


def load_document(path: str, assignments: Sequence[str] = ()) -> Any:
    """The document in a YAML file, or in the package's own recipe of that name, with overrides; not checked yet."""
    document = read_yaml(find_recipe(path), path, "anything")
    return override(document, assignments) if isinstance(document, Mapping) else document
