"""Runs of one recipe by several methods: the function that trains a student for the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, final

from ...distil.judging.tokens import Causal
from ...distil.objective import write_cache_for
from ...pretrained import open_model
from ...pretrained.network import PRETRAINED
from ...training import Recipe, read_recipe, train
from ...training.directory import RunDirectory
from ...training.objective import find_objective
from ...training.processes import this_world
from ..compare.trials import read_curves
from .running import Distilled


@final
@dataclass(frozen=True)
class RecipeRuns:
    """A recipe whose objective has a method; all else is the same for all runs. See `running.Distil`."""

    document: Mapping[str, Any]
    data: Path | None = None
    quiet: bool = False

    def recipe(self, method: str, seed: int) -> Recipe:
        """The recipe of a run."""
        document = deepcopy(dict(self.document))
        objective: dict[str, Any] = {**document["objective"], "method": method}
        train_options = {**document.get("train", {}), "seed": seed}
        return read_recipe({**document, "objective": objective, "train": train_options}, f"the recipe of {method}")

    def write_cache(self, methods: Sequence[str]) -> None:
        """Let the teacher read the texts once, for all methods: runs then only read its cache."""
        recipe = self.recipe(methods[0], 0)
        assert isinstance(recipe.objective, dict)
        if recipe.objective.get("cache"):
            task = recipe.load_task(self.data)
            _, options = find_objective(recipe.objective)
            write_cache_for(methods, PRETRAINED.build(recipe, task, inf), task, options)

    def __call__(self, method: str, seed: int, folder: Path) -> Distilled:
        recipe = self.recipe(method, seed)
        result = train(recipe, folder, self.data, self.quiet)
        directory = RunDirectory(folder)
        curves = read_curves(directory, result.metric.name, recipe.train)
        student = open_causal(directory.model) if result.status == "finished" else None
        return Distilled(
            student, result.steps, result.seconds, result.device, curves["train_loss"], curves["valid_loss"]
        )


def open_causal(name: str | Path) -> Causal:
    """A model and its tokenizer, on the device where runs train."""
    opened = open_model(name)
    return Causal(opened.model.to(this_world().device), opened.needs_tokenizer())
