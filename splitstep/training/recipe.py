"""Recipes: what to train, on what and how, as YAML plus `a.b=c` overrides, checked key by key."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..models import CONFIGS, SplitstepConfig
from ..models.cost import twin
from ..schemes import scheme
from ..tasks import TASKS, Task, task
from ..tasks.options import nearest, read_options

SCHEDULES = ("cosine", "linear", "inverse-sqrt", "constant")


@dataclass(frozen=True)
class TrainOptions:
    """How to optimise. `batch` counts examples over all processes and accumulated parts."""

    steps: int = 1000
    batch: int = 64
    accumulate: int = 1
    lr: float = 1e-3
    schedule: Literal["cosine", "linear", "inverse-sqrt", "constant"] = "cosine"
    warmup: int = 100
    final: float = 0.0  # the share of lr that cosine and linear schedules end with
    weight_decay: float = 0.01
    betas: tuple[float, ...] = (0.9, 0.98)
    eps: float = 1e-8
    clip: float = 1.0  # of the gradient's norm; 0: none
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    mode: Literal["auto", "eager", "compile", "capture", "compile+capture"] = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    seed: int = 0
    log_every: int = 20
    evaluate_every: int = 0  # steps; 0: ten times a run
    evaluate_batch: int = 0  # examples; 0: as in training
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"option {name} is {getattr(self, name)}, and needs at least 1")
        for name in ("lr", "eps"):
            if not getattr(self, name) > 0:
                raise ValueError(f"option {name} is {getattr(self, name)}, and needs a positive number")
        if self.batch % self.accumulate:
            raise ValueError(f"option batch is {self.batch}, and must be divisible by accumulate, {self.accumulate}")
        if len(self.betas) != 2:
            raise ValueError(f"option betas is {list(self.betas)}, and needs two numbers such as [0.9, 0.98]")


@dataclass(frozen=True)
class Recipe:
    """One training run. `model` is the shape of the `reference` scheme; `scheme` is its twin at equal cost."""

    task: str
    scheme: str = "lie"
    reference: str = "lie"
    match: Literal["parameters", "flops", "none"] = "parameters"
    data: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    train: TrainOptions = field(default_factory=TrainOptions)

    def document(self) -> dict[str, Any]:
        """The recipe as JSON and YAML keep it."""
        train = {**dataclasses.asdict(self.train), "betas": list(self.train.betas)}
        return {**dataclasses.asdict(self), "data": dict(self.data), "model": dict(self.model), "train": train}

    def load_task(self, data: Path | None = None) -> Task:
        return task(self.task, self.data, data)

    def config(self, task: Task) -> SplitstepConfig:
        """The network: the reference's shape, or its twin where the scheme is another."""
        kind = CONFIGS[task.model]
        shape = {RENAMED.get(key, key): value for key, value in task.shape.items()}
        reference = kind(**{**shape, **self.model, "scheme": self.reference})
        if str(scheme(self.scheme)) == reference.scheme:
            return reference
        if self.match == "none":
            return kind(**{**shape, **self.model, "scheme": self.scheme})
        return twin(reference, self.scheme, self.match, task.length)


RENAMED = {"max_length": "max_positions", "labels": "num_labels"}


def read_recipe(document: Mapping[str, Any], where: str) -> Recipe:
    """The recipe that a parsed document describes, every key and type checked."""
    if not isinstance(document, Mapping):
        raise ValueError(f"{where} is not a recipe: it needs entries such as `task: digits`")
    names = [f.name for f in dataclasses.fields(Recipe)]
    for key in document:
        if key not in names:
            raise ValueError(
                f'{where} has no entry "{key}"{nearest(str(key), names)} its entries are {", ".join(names)}'
            )
    if "task" not in document:
        raise ValueError(f"{where} names no task: add `task: NAME`, one of {', '.join(TASKS)}")
    sections = {name: document.get(name) or {} for name in ("data", "model", "train")}
    for name, section in sections.items():
        if not isinstance(section, Mapping):
            raise ValueError(f"{where}: {name} is {section!r}, and needs entries of its own such as {name}.key=value")
    values = {key: document[key] for key in document if key not in sections}
    for key, value in values.items():
        if not isinstance(value, str):
            raise ValueError(f"{where}: {key} is {value!r}, and needs text")
    if values.get("match", "none") not in ("parameters", "flops", "none"):
        raise ValueError(f"{where}: match is {values['match']!r}, and needs parameters, flops or none")
    for key in ("scheme", "reference"):
        if key in values:
            scheme(values[key])
    if values["task"] not in TASKS:
        raise ValueError(
            f'there is no task "{values["task"]}"{nearest(values["task"], TASKS)} the tasks are {", ".join(TASKS)}'
        )
    kind = TASKS[values["task"]]
    read_options(kind.Options, sections["data"], f"{where}: data")
    check_model(kind.model, sections["model"], where)
    train = read_options(TrainOptions, sections["train"], f"{where}: train")
    return Recipe(**values, data=dict(sections["data"]), model=dict(sections["model"]), train=train)


def check_model(kind: str, given: Mapping[str, Any], where: str) -> None:
    names = [f.name for f in dataclasses.fields(CONFIGS[kind]) if f.name not in ("scheme", "format", "matched")]
    for key in given:
        if key not in names:
            raise ValueError(f'{where}: the model has no entry "{key}"{nearest(str(key), names)} see docs/models.md')


def override(document: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The document with `a.b=c` put in; the value is read as YAML."""
    import yaml

    out: dict[str, Any] = {key: dict(value) if isinstance(value, Mapping) else value for key, value in document.items()}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.split(".")
        if not equals or not all(keys) or len(keys) > 2:
            raise ValueError(f"override {assignment!r} is not of the form key=value or section.key=value")
        try:
            value = yaml.safe_load(text) if keys[0] not in ("scheme", "reference") else text
        except yaml.YAMLError:
            raise ValueError(f"override {assignment!r}: {text!r} is not a YAML value") from None
        value = number(value)
        if len(keys) == 1:
            out[keys[0]] = value
        else:
            section = out.setdefault(keys[0], {})
            if not isinstance(section, dict):
                raise ValueError(f"override {assignment!r}: {keys[0]} has no entries of its own")
            section[keys[1]] = value
    return out


def number(value: Any) -> Any:
    """YAML reads 3e-4 as text; people mean the number."""
    if isinstance(value, str):
        try:
            return float(value) if "e" in value.lower() and value[:1] in "-+.0123456789" else value
        except ValueError:
            return value
    return value


def load_recipe(path: str, assignments: Sequence[str] = ()) -> Recipe:
    """The recipe of a YAML file with overrides."""
    import yaml

    file = Path(path)
    if not file.is_file():
        here = sorted(str(p) for p in Path("recipes").glob("*.yaml"))
        hint = f"; recipes here: {', '.join(here)}" if here else ""
        raise ValueError(f"there is no recipe {path!r}{hint}")
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        line = str(error).splitlines()[-1].strip()
        raise ValueError(f"{path} is not YAML: {line}") from None
    if not isinstance(document, Mapping):
        raise ValueError(f"{path} is not a recipe: it needs entries such as `task: digits`")
    sections = {
        key: {k: number(v) for k, v in value.items()} if isinstance(value, Mapping) else value
        for key, value in document.items()
    }
    return read_recipe(override(sections, assignments), path)
