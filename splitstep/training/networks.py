"""Networks: how the model of a run is made, from which weights it starts, and what is told about it. Here: those of a
scheme, drawn from a seed, or from the weights of another run's model or of a folder that `save_pretrained` wrote.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, PreTrainedConfig

from ..fields import Diffusion
from ..models import KINDS, SplitstepConfig, SplitstepModel
from ..models.base import all_stacks, refuse_not_finite, refuse_pickles
from ..models.cost import Cost, cost
from ..probes import observe
from ..recipe import NETWORKS, Recipe, dictated
from ..schemes import name_of
from ..stability import beyond_limit, longest_step
from ..stack import Stack
from ..support.auto_classes import silent
from ..support.documents import AGAIN, read_json, readable
from ..support.typed import read_as
from ..tasks import Batch, Task
from .checkpoint import list_checkpoints
from .directory import RunDirectory
from .result import Matched, RunResult, SchemeName, Shape, Start, model_card
from .weights import gathered


class NetworkSummary(NamedTuple):
    """What a result says of a network."""

    scheme: SchemeName
    cost: Cost
    matched: Matched | None
    shape: Shape


class Network(NamedTuple):
    """A way to make the model that a run trains. A recipe names it with `network:`; see recipe.NETWORKS."""

    build: Callable[[Recipe, Task, float], Any]  # the model; refused if training it takes more bytes than this
    load_start: Callable[[Any, Recipe, Task, RunDirectory], Start | None]  # loads the weights that the recipe names
    about: Callable[[Any, Task], NetworkSummary]  # what the run's result says of the model
    norms: Callable[[Any, Batch, Tensor], tuple[list[float], list[float]]]  # if it diverged: of states and weights
    card: Callable[[RunResult, Any, Task, Path], str]  # the README.md of the saved model, which is in this folder
    cost: Callable[[Recipe, Task], Cost]  # of the recipe's network, without building it


def about_scheme(model: SplitstepModel, task: Task) -> NetworkSummary:
    """What the run's result says of a network of a scheme."""
    config = model.config
    return NetworkSummary(
        SchemeName(name_of(config.scheme), str(config.scheme)),
        cost(config, task.length),
        read_as(Matched | None, config.matched, "matched"),
        Shape(config.layers, config.width, config.ffn, config.step),
    )


def norms_of_scheme(model: SplitstepModel, batch: Batch, seed: Tensor) -> tuple[list[float], list[float]]:
    """The norms of the states after the embedding and each layer in a pass of this batch, and of each layer's
    weights."""
    found = observe(model, {**batch, "dropout_seed": seed}, ["state_norms"])["state_norms"]
    layers = [layer for stack in all_stacks(model) for layer in stack.layers]
    return [float(size) for figures in found.values() for size in figures["x"]], list(map(norm_of_weights, layers))


def norm_of_weights(layer: nn.Module) -> float:
    """The norm of all weights of a layer together."""
    return float(torch.stack([gathered(p.detach()).float().norm() for p in layer.parameters()]).norm())


BYTES = 16  # per parameter in training: itself, its gradient and AdamW's two moments, all in float32


def build_model(recipe: Recipe, task: Task, room: float = inf) -> SplitstepModel:
    """The recipe's network, initialised from its seed alone; refused if training it takes more than `room` bytes."""
    config = recipe.config(task)
    check_bytes(cost(config).parameters, room)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.train.seed)
        return KINDS[task.model].model(config)


def check_bytes(parameters: int, room: float) -> None:
    """Refuse a network of so many parameters that cannot be trained in `room` bytes, before it takes any."""
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


FREE = frozenset({
    "format", "matched", "sources", "dropout", "attention_dropout", "activation_dropout", "init", "init_std", "letters",
    "max_positions", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "use_cache", "pool",
    "label_smoothing", "head_start", "next_sentence_labels",
})  # fmt: skip  # config entries that may differ: the weights mean the same under either value, or letters say it


def meaning(config: SplitstepConfig) -> dict[str, Any]:
    """The entries that say what weights mean, the options of each field included."""
    found = {name: getattr(config, name) for name in config.entries() if name not in FREE}
    for name in sorted({name for one, _ in config.stacks() for name in one.fields}):
        options = config.options_of(name)
        lasting = [one.name for one in fields(options) if not one.metadata.get("start")]
        found |= {f"letters.{name}.{key}": getattr(options, key) for key in lasting}
    return found


@torch.no_grad()
def load_start(model: SplitstepModel, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
    """Load the weights that the recipe names into the model, unless a checkpoint is about to be loaded."""
    if recipe.start is None or list_checkpoints(directory.checkpoints):
        return None
    kind, stored = stored_start(recipe.start, model.config, recipe, task)
    weights = dict(model.named_parameters())
    taken = taken_over(stored, weights, kind == model.config.model_type, recipe.start)
    for name in taken:
        weights[name].copy_(stored[name])
    new, left = ([name for name in names if name not in taken] for names in (weights, stored))
    return Start(recipe.start, sha256_of(model_folder(recipe.start)), len(taken), new, left)


def stored_start(start: str, here: SplitstepConfig, recipe: Recipe, task: Task) -> tuple[str, dict[str, Tensor]]:
    """The kind of model that a run is to start from, and its weights; refused if they are damaged, mean something else
    in the network of this config, or go with other tokens."""
    folder = model_folder(start)
    read_json(folder / "config.json", hint=AGAIN)
    with silent(), readable(f"start: the model in {folder}", AGAIN):
        config = AutoConfig.from_pretrained(folder)
        stored = {name: x for file in sorted(folder.glob("*.safetensors")) for name, x in load_file(file).items()}
    refuse_not_finite(stored, f"start: {folder}")
    check_same(config, here, recipe, task)
    if not task.same_tokens(folder):
        raise ValueError(f"start: {start} has other tokens than the task: {data_of_start(recipe, task)}")
    return config.model_type, stored


def model_folder(path: str) -> Path:
    """The model folder of a run; else the folder itself."""
    run = RunDirectory(Path(path))
    run.refuse_comparison()
    folder = run.model if run.recipe_file.is_file() else run.path
    if not (folder / "config.json").is_file():
        raise ValueError(f"start: {path} holds no model: name a finished run, or a folder that save_pretrained wrote")
    refuse_pickles(folder, "")
    return folder


def sha256_of(folder: Path) -> str:
    """The hash of the weights: of their files, one after another."""
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: total)
    return total.hexdigest()


def taken_over(stored: Mapping[str, Tensor], weights: Mapping[str, Tensor], same_kind: bool, path: str) -> set[str]:
    """The names of the stored weights that the model takes over: those that it has too. A head is taken only from the
    same kind of model, and only if it has as many outputs; everything else must fit."""
    found = {name for name in weights if name in stored and (same_kind or not name.startswith("head."))}
    wrong = [name for name in found if stored[name].shape != weights[name].shape]
    for name in wrong:
        if not name.startswith("head."):
            shapes = f"{list(stored[name].shape)} in {path} and {list(weights[name].shape)} here"
            raise ValueError(f"start: {name} has shape {shapes}: use the model and the data of that run")
    if found == set(wrong):
        raise ValueError(f"start: {path} has no weights that this kind of model takes: name a model of the same kind")
    return found.difference(wrong)


def data_of_start(recipe: Recipe, task: Task) -> str:
    """What to do if the start has other tokens than the data."""
    takes = "tokenizer" in {option.name for option in fields(task.options)}
    other = f"add data.tokenizer={recipe.start}, or " if takes else ""
    return f"{other}use the data that it was trained on"


def check_same(there: PreTrainedConfig, here: SplitstepConfig, recipe: Recipe, task: Task) -> None:
    """Refuse weights that would mean something else in this network; the error says what to type."""
    if not isinstance(there, SplitstepConfig):
        raise ValueError(f"start: {recipe.start} is a {there.model_type} model: name one that splitstep trained")
    theirs, ours = meaning(there), meaning(here)
    differ = {name: theirs[name] for name in ours if name in theirs and theirs[name] != ours[name]}
    if not differ:
        return
    differences = ", ".join(f"{name} {value} (here {ours[name]})" for name, value in differ.items())
    of_data = [name for name in differ if name in dictated(task)]
    typed = [f'scheme="{value}"' if name == "scheme" else f"model.{name}={value}".replace(" ", "")
             for name, value in differ.items() if name not in of_data]  # fmt: skip
    schemes = {recipe.reference, recipe.scheme, there.scheme}
    typed += ["match=none"] * ("ffn" in differ and len(schemes) > 1)
    remedies = [f"type {' '.join(typed)}"] * bool(typed)
    remedies += [f"{data_of_start(recipe, task)}, which decide its {' and '.join(of_data)}"] * bool(of_data)
    raise ValueError(f"start: {recipe.start} has {differences}: {'; '.join(remedies)}")


def cost_of_scheme(recipe: Recipe, task: Task) -> Cost:
    """What the recipe's network costs."""
    return cost(recipe.config(task), task.length)


def cost_of(recipe: Recipe, task: Task) -> Cost:
    """What the recipe's network costs, whoever designed it."""
    network: Network = NETWORKS.find(recipe.network_name)
    return network.cost(recipe, task)


SCHEME = Network(build_model, load_start, about_scheme, norms_of_scheme, model_card, cost_of_scheme)
