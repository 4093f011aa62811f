"""Networks of a scheme, which a recipe describes and a seed initialises: what splitstep is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch

from ..models.base import all_stacks
from ..models.cost import cost
from ..probes import observe
from ..schemes import name_of, scheme
from ..support.typed import read_as
from ..tasks import Batch, Task
from . import run
from .card import model_card
from .directory import RunDirectory
from .network import About, Network, Norms
from .recipe import Recipe, check_model
from .run_result import Matched, RunResult, SchemeName, Shape, Start
from .sharding import gathered
from .start import load_start


@final
class SchemeNetwork(Network):
    """A network of ours, of the kind that the task says."""

    def check(self, kind: str, recipe: Mapping[str, Any], where: str) -> None:
        shaped = "scheme" if recipe.get("match") == "none" else "reference"  # whose shape `model` is
        check_model(kind, recipe.get("model") or {}, recipe.get(shaped, getattr(Recipe, shaped)), where)

    def build(self, recipe: Recipe, task: Task, room: float) -> Any:
        return run.build_model(recipe, task, room)

    def load_start(self, model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
        return load_start(model, recipe, task, directory)

    def kind(self, model: Any) -> str | None:
        return None

    def about(self, model: Any, task: Task) -> About:
        config = model.config
        return About(
            SchemeName(name_of(scheme(config.scheme)), config.scheme),
            cost(config, task.length),
            read_as(Matched | None, config.matched, "matched"),
            Shape(config.layers, config.width, config.ffn, config.step),
        )

    def norms(self, model: Any, batch: Batch, seed: Any) -> Norms:
        found = observe(model, {**batch, "dropout_seed": seed}, ["state_norms"])["state_norms"]
        weights = [
            float(torch.stack([gathered(p.detach()).float().norm() for p in layer.parameters()]).norm())
            for stack in all_stacks(model)
            for layer in stack.layers
        ]
        return Norms([float(size) for figures in found.values() for size in figures["x"]], weights)

    def card(self, result: RunResult, model: Any, task: Task, folder: Path) -> str:
        return model_card(result, model.config, task, folder)


SCHEME = SchemeNetwork()
