"""Opening a finished run: its recipe, its model and, if they are needed, its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..models import KINDS, SplitstepModel
from ..models.base import silent
from ..tasks import TASKS, Task
from ..training import Recipe
from ..training.directory import RunDirectory


class Finished(NamedTuple):
    """A finished run; its model is not loaded yet."""

    recipe: Recipe
    model: Path
    precision: torch.dtype  # in which it was trained

    def load_model(self) -> tuple[Any, torch.dtype]:
        """The model, on the GPU if there is one, and the precision to run it in."""
        with silent():
            model = KINDS[TASKS[self.recipe.task].model].model.from_pretrained(self.model)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return model.to(device).eval(), self.precision if device.type == "cuda" else torch.float32


class Trained(NamedTuple):
    """A finished run with its data and its model loaded."""

    recipe: Recipe
    task: Task
    model: SplitstepModel
    precision: torch.dtype


def find_run(path: Path) -> Finished:
    """The finished run in a directory."""
    directory = RunDirectory(path)
    recipe, result = directory.recipe(), directory.result()
    if result is None:
        raise ValueError(f"{path} has not finished: continue it with `splitstep train {path}/recipe.yaml --out {path}`")
    if result.status != "finished" or not directory.model.is_dir():
        raise ValueError(f"{path} has no model: the run {result.status} at step {result.steps}")
    return Finished(recipe, directory.model, getattr(torch, result.precision))


def open_run(path: Path, data: Path | None = None) -> Trained:
    """The finished run in a directory, with its data and its model loaded."""
    run = find_run(path)
    task = run.recipe.load_task(data)
    if not task.same_tokens(run.model):
        raise ValueError(
            f"{path} was trained with other subwords than its data have now: restore the files and the version of "
            f"tokenizers that its environment.json names; `splitstep translate {path}` needs neither"
        )
    return Trained(run.recipe, task, *run.load_model())
