"""Weights that a run starts from: those of another run's model, or of a folder that `save_pretrained` wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from ..models import SplitstepConfig, SplitstepModel
from ..models.base import refuse_pickles
from ..recipe import Recipe, dictated
from ..tasks import Task
from .checkpoint import list_checkpoints
from .directory import RunDirectory
from .result import Start

FREE = frozenset({
    "format", "matched", "dropout", "attention_dropout", "activation_dropout", "init", "init_std", "rotary_bias",
    "max_positions", "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "use_cache", "pool",
    "label_smoothing", "head_start", "next_sentence_labels",
})  # fmt: skip  # config entries that may differ: the weights mean the same under either value


@torch.no_grad()
def load_start(model: SplitstepModel, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
    """Load the weights that the recipe names into the model, unless a checkpoint is about to be loaded."""
    if recipe.start is None or list_checkpoints(directory.checkpoints):
        return None
    folder = model_folder(recipe.start)
    try:
        config = AutoConfig.from_pretrained(folder)
        stored = {name: x for file in sorted(folder.glob("*.safetensors")) for name, x in load_file(file).items()}
    except (ValueError, OSError, SafetensorError) as error:
        raise ValueError(f"start: the model in {folder} is damaged: {str(error).splitlines()[0]}") from None
    check_same(config, model.config, recipe, task)
    if not task.same_tokens(folder):
        raise ValueError(f"start: {recipe.start} has other tokens than the task: {data_of_start(recipe, task)}")
    weights = dict(model.named_parameters())
    taken = taken_over(stored, weights, config.model_type == model.config.model_type, recipe.start)
    for name in taken:
        weights[name].copy_(stored[name])
    new, left = ([name for name in names if name not in taken] for names in (weights, stored))
    return Start(recipe.start, sha256_of(folder), len(taken), new, left)


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
    shared = (there.entries().keys() & here.entries().keys()) - FREE
    differ = {name: getattr(there, name) for name in here.entries() if name in shared}
    differ = {name: value for name, value in differ.items() if value != getattr(here, name)}
    if not differ:
        return
    differences = ", ".join(f"{name} {value} (here {getattr(here, name)})" for name, value in differ.items())
    of_data = [name for name in differ if name in dictated(task)]
    typed = [f'scheme="{value}"' if name == "scheme" else f"model.{name}={value}".replace(" ", "")
             for name, value in differ.items() if name not in of_data]  # fmt: skip
    schemes = {recipe.reference, recipe.scheme, str(there.scheme)}
    typed += ["match=none"] * ("ffn" in differ and len(schemes) > 1)
    remedies = [f"type {' '.join(typed)}"] * bool(typed)
    remedies += [f"{data_of_start(recipe, task)}, which decide its {' and '.join(of_data)}"] * bool(of_data)
    raise ValueError(f"start: {recipe.start} has {differences}: {'; '.join(remedies)}")
