"""A pretrained model as the network that a run trains: the one that `start` names, or some of its layers."""

import hashlib
from copy import deepcopy
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from ..flows.examples import made_up
from ..flows.foreign import ForeignFlow
from ..flows.layers import check_causal, with_layers
from ..models import SplitstepModel
from ..models.cost import Cost
from ..recipe import Recipe
from ..schemes import name_of
from ..tasks import Batch, Task
from ..tasks.instruct import Instruct
from ..training.checkpoint import list_checkpoints
from ..training.directory import RunDirectory
from ..training.networks import Network, NetworkSummary, norms_of_scheme
from ..training.result import RunResult, SchemeName, Start, escaped
from .load import open_model
from .others import about as about_others
from .others import causal_card
from .others import norms as norms_of_others


def build(recipe: Recipe, task: Task, room: float) -> Any:
    """The causal model that `start` names. `model: {layers: 10}` keeps ten of its layers, evenly."""
    assert recipe.start is not None
    opened = open_model(recipe.start)
    check_causal(opened.model, recipe.start)
    model = opened.model.float()
    if "layers" in recipe.model:
        model = with_layers(model, recipe.model["layers"], recipe.start)
    model.config.use_cache = True
    return model.requires_grad_(True)


def start_of(model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
    """The weights are there already; their hash is recorded, so that a run does not continue from others."""
    assert recipe.start is not None
    if list_checkpoints(directory.checkpoints):
        return None
    return Start(recipe.start, sha256_of_weights(model), len(model.state_dict()), [], [])


def about(model: Any, task: Task) -> NetworkSummary:
    """What a run's result says of the model."""
    return about_others(model, task)._replace(scheme=scheme_of(model))


def norms(model: Any, batch: Batch, seed: Tensor) -> tuple[list[float], list[float]]:
    """The norms of the states and of each layer's weights, if the run diverged."""
    read = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
    return (norms_of_scheme if isinstance(model, SplitstepModel) else norms_of_others)(model, read, seed)


def card(result: RunResult, model: Any, task: Task, folder: Path) -> str:
    """The README.md of the saved model."""
    shape, start = result.shape, result.start.path if result.start else "A model"
    cut = f" It has {shape.layers} of its layers." if result.recipe.get("model", {}).get("layers") else ""
    about = f"{escaped(start)}, trained further with splitstep on the task {escaped(result.task)}.{cut}"
    return causal_card(result, model, task, f"from {Path(start).name}", about, prompt_of(task))


def prompt_of(task: Task) -> str:
    """The section on how prompts were written; empty if there were none."""
    if not isinstance(task, Instruct) or not any(row.prompt for row in task.rows["train"]):
        return ""
    lines = "\n".join(f"    {line}".rstrip() for line in task.options.template.splitlines())
    follow = "in a new line" if task.options.template.endswith("\n") else "at once"
    return f"\n## Prompt\n\nPrompts were written like this, and answers follow {follow}:\n\n{lines}\n"


def scheme_of(model: Any) -> SchemeName:
    """The scheme of a model: our own config's, or what taking a block apart finds."""
    if isinstance(model, SplitstepModel):
        (found, _), *_ = model.config.stacks()
    else:
        name = type(model).__name__
        found = ForeignFlow(whole(model).eval(), made_up(model, name), name).scheme
    return SchemeName(name_of(found), str(found))


def whole(model: Any) -> Any:
    """The model or, if its weights are spread over processes and come and go, one of its config with new weights."""
    if not any(isinstance(x, DTensor) for x in model.parameters()):
        return model
    with torch.random.fork_rng(devices=[]):
        return type(model)(deepcopy(model.config))


def sha256_of_weights(model: Any) -> str:
    """The hash of a model's weights by name, whatever files they came from."""
    total = hashlib.sha256()
    for name, x in sorted(model.state_dict().items()):
        total.update(f"{name} {x.dtype} {list(x.shape)}".encode())
        total.update(x.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def cost(recipe: Recipe, task: Task) -> Cost:
    """What the model costs; it is opened for that."""
    return about(build(recipe, task, inf), task).cost


PRETRAINED = Network(build, start_of, about, norms, card, cost)
