"""Runs of one recipe by several methods: the function that trains a student for the study."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, final

from ...distillation.judging.batch_size import release_memory
from ...distillation.judging.tokens import Causal
from ...distillation.objective import write_cache_for
from ...experiments.trials import read_curves
from ...flows.layers import with_layers
from ...opening import open_model
from ...opening.network import PRETRAINED, sha256_of_weights
from ...recipe import objective_options
from ...training import Recipe, read_recipe, train
from ...training.directory import RunDirectory
from ...training.processes import this_world
from .directory import Weights
from .running import Distilled


@final
@dataclass(frozen=True)
class RecipeRuns:
    """A recipe whose objective has a method; all else is the same for all runs. See `running.DistilRuns`."""

    document: Mapping[str, Any]
    data: Path | None = None

    def recipe(self, method: str = "ce", seed: int = 0) -> Recipe:
        """The recipe of a run."""
        document = deepcopy(dict(self.document))
        objective: dict[str, Any] = {**document["objective"], "method": method}
        train_options = {**document.get("train", {}), "seed": seed}
        return read_recipe({**document, "objective": objective, "train": train_options}, f"the recipe of {method}")

    @property
    def steps(self) -> int:
        return self.recipe().train.steps

    def write_cache(self, methods: Sequence[str]) -> None:
        """Let the teacher read the texts once, for all methods: runs then only read its cache."""
        recipe = self.recipe()
        _, options = objective_options(recipe.objective)
        if options.get("cache"):
            task = recipe.load_task(self.data)
            write_cache_for(methods, PRETRAINED.build(recipe, task, inf), task, options)

    def models(self) -> list[Causal]:
        """The teacher, and the student before training, in the memory of the host."""
        student = open_causal(self.document["start"], self.recipe().model.get("layers"))
        return [open_causal(self.document["objective"]["teacher"]), student]

    def teacher(self) -> Causal:
        return on_device(open_causal(self.document["objective"]["teacher"]))

    def start(self) -> Causal:
        return on_device(open_causal(self.document["start"], self.recipe().model.get("layers")))

    def train(self, method: str, seed: int, folder: Path) -> Distilled:
        """Train a student. When it is done its checkpoints are deleted: there are many students, and each checkpoint
        is three times as large as its model."""
        recipe, directory = self.recipe(method, seed), RunDirectory(folder)
        result = train(recipe, folder, self.data, quiet=True)
        shutil.rmtree(directory.checkpoints, ignore_errors=True)
        release_memory()
        curves = read_curves(directory, result.metric.name, recipe.train)
        student = on_device(open_causal(directory.model)) if result.status == "finished" else None
        return Distilled(
            student, result.steps, result.seconds, result.device, curves["train_loss"], curves["valid_loss"]
        )


def weights_of(models: Sequence[Causal]) -> Weights:
    """The hashes of the teacher and of the student before training, the latter as `start` of a run's result has it."""
    teacher, student = (sha256_of_weights(one.model) for one in models)
    return Weights(teacher, student)


def open_causal(name: str | Path, layers: int | None = None) -> Causal:
    """A model in float32, or so many of its layers, and its tokenizer."""
    opened = open_model(name)
    model = opened.model.float()
    if layers is not None:
        model = with_layers(model, layers, str(name))
    return Causal(model, opened.needs_tokenizer())


def on_device(one: Causal) -> Causal:
    """The model on the device where runs train."""
    return one._replace(model=one.model.to(this_world().device))
