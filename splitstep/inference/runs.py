"""Opening a finished run: its recipe, its model and, if they are needed, its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..models import KINDS, SplitstepModel
from ..models.base import silent
from ..opening import Opened, open_model
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
            if self.recipe.network == "scheme":
                model = KINDS[TASKS[self.recipe.task].model].model.from_pretrained(self.model)
            else:
                model = open_model(self.model).model
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
    recipe, model, result = directory.recipe(), directory.finished_model(), directory.result()
    assert result is not None  # it has finished
    return Finished(recipe, model, getattr(torch, result.precision))


def load(path: str | Path) -> Opened:
    """The model of a run directory, or in a folder that `save_pretrained` wrote, with its tokenizer or image processor.

    It is in evaluation mode. `splitstep.opening.open_model` opens GGUF files and names on the Hub as well.
    """
    if not Path(path).expanduser().is_dir():
        raise ValueError(f"there is no directory {path}: name a run or a model's folder")
    return open_model(path)


def open_run(path: Path, data: Path | None = None) -> Trained:
    """The finished run in a directory, with its data and its model loaded."""
    run = find_run(path)
    task = run.recipe.load_task(data, run.model)
    if not task.same_tokens(run.model):
        raise ValueError(
            f"{path} was trained with other subwords than its data have now: restore the files and the version of "
            f"tokenizers that its environment.json names; `splitstep translate {path}` needs neither"
        )
    return Trained(run.recipe, task, *run.load_model())
