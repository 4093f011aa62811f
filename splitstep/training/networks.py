"""Networks: how the model of a run is made, and what is told about it. Here: those of a scheme, drawn from a seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from torch.nn import functional

from ..fields import Diffusion
from ..models import KINDS, SplitstepConfig, SplitstepModel
from ..models.base import all_stacks
from ..models.cost import Cost, cost, sketch
from ..probes import observe
from ..recipe import Recipe
from ..schemes import name_of, scheme
from ..stability import beyond_limit, longest_step
from ..stack import Stack
from ..support.typed import read_as
from ..tasks import Batch, Task
from .card import model_card
from .directory import RunDirectory
from .result import Matched, RunResult, SchemeName, Shape, Start
from .start import load_start
from .weights import gathered


class NetworkSummary(NamedTuple):
    """What a result says of a network."""

    scheme: SchemeName
    cost: Cost
    matched: Matched | None
    shape: Shape


class Norms(NamedTuple):
    """The norms of the states after the embedding and each layer, and of each layer's weights."""

    states: list[float]
    weights: list[float]


class Network(ABC):
    """A way to make the model that a run trains. A recipe names it with `network:`; see recipe.NETWORKS."""

    @abstractmethod
    def build(self, recipe: Recipe, task: Task, room: float) -> Any:
        """The model; refused if training it takes more than `room` bytes."""

    @abstractmethod
    def load_start(self, model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
        """Load the weights that the recipe names into the model, unless a checkpoint is about to be loaded."""

    @abstractmethod
    def kind(self, model: Any) -> str | None:
        """The class of a model that is not of this package; None for those that are, which have a scheme."""

    @abstractmethod
    def about(self, model: Any, task: Task) -> NetworkSummary:
        """What the run's result says of the model."""

    @abstractmethod
    def norms(self, model: Any, batch: Batch, seed: Any) -> Norms:
        """How large everything is in a pass of this batch, for the result of a run that diverged."""

    @abstractmethod
    def card(self, result: RunResult, model: Any, task: Task, folder: Path) -> str:
        """The README.md of the saved model, which is in this folder."""


@final
class SchemeNetwork(Network):
    """A network of a scheme, of the kind that the task says, initialised by a seed: what splitstep is about."""

    def build(self, recipe: Recipe, task: Task, room: float) -> Any:
        return build_model(recipe, task, room)

    def load_start(self, model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
        return load_start(model, recipe, task, directory)

    def kind(self, model: Any) -> str | None:
        return None

    def about(self, model: Any, task: Task) -> NetworkSummary:
        config = model.config
        return NetworkSummary(
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
BYTES = 16  # per parameter in training: itself, its gradient and AdamW's two moments, all in float32


def build_model(recipe: Recipe, task: Task, room: float = inf) -> SplitstepModel:
    """The recipe's network, initialised from its seed alone; refused if training it takes more than `room` bytes."""
    config = recipe.config(task)
    check_room(config, room)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.train.seed)
        return KINDS[task.model].model(config)


def check_room(config: SplitstepConfig, room: float) -> None:
    """Refuse a network that cannot be trained in `room` bytes, before it takes any."""
    parameters = sum(p.numel() for p in sketch(config).parameters())
    if BYTES * parameters > room:
        raise ValueError(
            f"the model has {parameters:,} parameters, which take {BYTES * parameters / 2**30:,.0f} GiB in training, "
            f"and the device has {room / 2**30:,.0f}: lower model.width, model.ffn or model.layers"
        )


def fields_of(stack: Stack) -> list[tuple[int, Diffusion]]:
    """The diffusions of a stack that its scheme advances explicitly, with their layers."""
    found = [(i, field) for i, layer in enumerate(stack.layers) for field in layer.children()]
    diffusions = [(i, field) for i, field in found if isinstance(field, Diffusion)]
    return [(i, d) for i, d in diffusions if longest_step(stack.scheme, d.ends, d.axes)[0] < float("inf")]


@torch.no_grad()
def beyond_diffusion_limit(model: SplitstepModel) -> str:
    """Which layer's alpha has grown beyond the limit of its explicit steps, and what to type; "" if none has. It waits
    for the device, so ask as rarely as for the loss."""
    for stack in all_stacks(model):
        if not (fields := fields_of(stack)):
            continue
        alphas = functional.softplus(torch.cat([gathered(d.a).float() for _, d in fields])).tolist()
        for alpha, (layer, d) in zip(alphas, fields, strict=True):
            if wrong := beyond_limit(stack.scheme, alpha, stack.step / stack.substeps, d.ends, d.axes):
                return f"layer {layer}: {wrong}"
    return ""
