"""Opening a finished run: its recipe, its task and its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..models import KINDS, SplitstepModel
from ..models.base import silent
from ..tasks import Task
from ..training import Recipe, read_recipe
from ..training.directory import RunDirectory
from ..training.run_result import RunResult


class Trained(NamedTuple):
    """A run, loaded."""

    recipe: Recipe
    task: Task
    model: SplitstepModel
    precision: torch.dtype


def open_run(path: Path, data: Path | None = None) -> Trained:
    """The run in a directory: its recipe, its task and its model, on the GPU where there is one."""
    directory = RunDirectory(path)
    recipe = read_recipe(directory.recipe(), str(path / "recipe.yaml"))
    result = directory.result()
    if result is None:
        raise ValueError(f"{path} has not finished: go on with it by `splitstep train {path}/recipe.yaml --out {path}`")
    if result.status != "finished" or not directory.model.is_dir():
        raise ValueError(f"{path} has no model: the run {result.status} at step {result.steps}")
    task = recipe.load_task(data)
    if not task.same_tokens(directory.model):
        raise ValueError(
            f"{path} was trained with other subwords than its data have now: bring back the files and the version of "
            f"tokenizers that its environment.json names; `splitstep translate {path}` needs neither"
        )
    return Trained(recipe, task, *load_model(KINDS[task.model].model, directory, result))


def load_model(kind: type[SplitstepModel], directory: RunDirectory, result: RunResult) -> tuple[Any, torch.dtype]:
    """A run's model, on the GPU where there is one, and the precision to run it in."""
    with silent():
        model = kind.from_pretrained(directory.model)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = getattr(torch, result.precision) if device.type == "cuda" else torch.float32
    return model.to(device).eval(), precision
