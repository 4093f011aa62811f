"""Networks that others designed, drawn from a seed: around a block, and of a config of transformers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GenerationConfig

from ..flows.layers import layers_of
from ..models import SplitstepModel
from ..models.block import BlockConfig, SplitstepBlockForCausalLM, shape_around, trust
from ..models.cost import Cost, counted
from ..models.leaks import check_leaks
from ..recipe import Recipe, dictated, objective_text
from ..shape import CausalShape
from ..sources import BlockSource, ConfigSource
from ..support.auto_classes import silent
from ..support.memory import no_memory
from ..support.words import first_line
from ..tasks import Batch, Task
from ..training.directory import RunDirectory
from ..training.networks import Network, NetworkSummary, check_bytes, norm_of_weights
from ..training.result import RunResult, SchemeName, Shape, Start, escaped, loading_code, written_card
from .configs import Adapted, adapted, width_entry

AUTO = "AutoModelForCausalLM"
SIZE = {"width": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads"}  # as configs call it
TYING = "tie_word_embeddings"


def entries_of(recipe: Recipe, task: Task) -> dict[str, Any]:
    """The entries of a causal model that the recipe and the task's data give."""
    return {**dictated(task), **recipe.model}


def block_config(recipe: Recipe, task: Task) -> BlockConfig:
    """The config of the network around the recipe's block."""
    source = recipe.source
    assert isinstance(source, BlockSource)
    trust(source)  # the recipe was given to be trained
    return BlockConfig(block={"file": source.file, "text": source.text}, shape=shape_around(entries_of(recipe, task)))


def adapted_config(recipe: Recipe, task: Task) -> Adapted:
    """The recipe's config of transformers as it fits the task, and what was changed."""
    assert isinstance(recipe.source, ConfigSource)
    return adapted(recipe.source, CausalShape(**entries_of(recipe, task)))


def size_of(recipe: Recipe, task: Task) -> dict[str, Any]:
    """The width, depth, heads and tying of the recipe's network, as entries of a recipe."""
    entries = entries_of(recipe, task)
    shape = CausalShape(**{name: entries[name] for name in (*SIZE, TYING, "head_size") if name in entries})
    found: dict[str, Any] = {name: getattr(shape, name) for name in (*SIZE, TYING)}
    if isinstance(recipe.source, ConfigSource):
        config = adapted_config(recipe, task).config
        found |= {name: size for name, usual in SIZE.items() if (size := getattr(config, usual, None))}
    return {f"model.{name}": value for name, value in found.items()}


def made_of_config(source: ConfigSource, found: Adapted) -> Any:
    """A new model of the config, drawn from the present seed."""
    with silent():
        try:
            model = AutoModelForCausalLM.from_config(found.config, trust_remote_code=False)
        except Exception as error:  # sizes that do not fit each other fail in many ways
            raise ValueError(
                f"{source.file} does not build at the recipe's size ({first_line(error)}): type {source.file}:as-is"
            ) from None
    model.generation_config = GenerationConfig()
    return model


def maker(recipe: Recipe, task: Task) -> Callable[[], Any]:
    """What makes the recipe's network from the present seed."""
    if isinstance(recipe.source, BlockSource):
        return partial(SplitstepBlockForCausalLM, block_config(recipe, task))
    assert recipe.source is not None
    return partial(made_of_config, recipe.source, adapted_config(recipe, task))


def build(recipe: Recipe, task: Task, room: float) -> Any:
    """The recipe's network, drawn from its seed alone; refused if training it takes more than `room` bytes."""
    make = maker(recipe, task)
    if room < inf:
        check_bytes(counted(make, 1).parameters, room)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.train.seed)
        return make()


def check_network(recipe: Recipe, task: Task) -> None:
    """Refuse a network of others that changes shapes, or sees later tokens or other examples."""
    if recipe.source is not None:
        with runs(recipe, task):
            check_leaks(build(recipe, task, inf), recipe.source.file, task.length)


def no_start(model: Any, recipe: Recipe, task: Task, directory: RunDirectory) -> Start | None:
    """Nothing: the weights are new."""
    return None


def cost(recipe: Recipe, task: Task) -> Cost:
    """What the recipe's network costs."""
    with runs(recipe, task):
        return counted(maker(recipe, task), task.length)


@contextmanager
def runs(recipe: Recipe, task: Task) -> Iterator[None]:
    """Make one line of whatever goes wrong in a pass of the network; too little memory is another matter."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        source = recipe.source
        if source is None or no_memory(error):
            raise
        resized = isinstance(source, ConfigSource) and not source.kept
        remedy = f"its sizes may not fit each other, so type {source.file}:as-is" if resized else "repair it"
        what = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"{source.file} fails in a pass over {task.length} tokens ({what}): {remedy}") from None


def about(model: Any, task: Task) -> NetworkSummary:
    """What a run's result says of the model."""
    config, name = model.config, title(model)
    if isinstance(config, BlockConfig):
        shape = config.around
        size = Shape(shape.layers, shape.width, shape.ffn, float(shape.step))
    else:
        text, width = config.get_text_config(), model.get_output_embeddings().weight.shape[1]
        key = width_entry(text)
        layers = getattr(text, SIZE["layers"], None) or len(layers_of(model, name))
        size = Shape(layers, width, (key and getattr(text, key)) or 4 * width, 1.0)
    found = counted(lambda: type(model)(deepcopy(config)), task.length)
    return NetworkSummary(SchemeName(name, ""), found, None, size)


def title(model: Any) -> str:
    """What people call a model: mine.py:block, or Qwen3ForCausalLM."""
    return model.config.source.file if isinstance(model.config, BlockConfig) else type(model).__name__


def norms(model: Any, batch: Batch, seed: Tensor) -> tuple[list[float], list[float]]:
    """The norms of the states after the embedding and each layer in a pass of this batch, and of each layer's
    weights."""
    layers, states = layers_of(model, title(model)), list[Tensor]()

    def see(layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any], new: Any) -> None:
        states.extend([] if states else [given[0] if given else named["hidden_states"]])
        states.append(new[0] if isinstance(new, tuple) else new)

    held = [layer.register_forward_hook(see, with_kwargs=True) for layer in layers]
    try:
        model(**{name: x for name, x in batch.items() if name != "labels"}, use_cache=False)
    finally:
        for one in held:
            one.remove()
    return [float(x.float().norm(dim=-1).mean()) for x in states], list(map(norm_of_weights, layers))


def card(result: RunResult, model: Any, task: Task, folder: Path) -> str:
    """The README.md of the saved model."""
    name, block = title(model), isinstance(model.config, BlockConfig)
    what = f"A causal language model{' whose layers are those of' if block else ','} {escaped(name)}"
    about = f"{what}, trained with splitstep on the task {escaped(result.task)}."
    return causal_card(result, model, task, name, about)


def causal_card(result: RunResult, model: Any, task: Task, title: str, about: str, prompt: str = "") -> str:
    """The card of a causal model that is not of a scheme."""
    ours = isinstance(model, SplitstepModel | SplitstepBlockForCausalLM)
    rows = [
        ("kind", type(model).__name__),
        ("layers", f"{result.shape.layers}"),
        ("width", f"{result.shape.width}"),
        ("parameters", f"{result.cost.parameters:,}"),
        ("objective", escaped(objective_text(result.recipe["objective"]))),
    ]
    code = loading_code(AUTO, True, ours)
    return written_card(
        result, task, AUTO, title=f"{result.task}, {title}", about=about, rows=rows, loading=code, prompt=prompt
    )


BLOCK = CONFIG = Network(build, no_start, about, norms, card, cost)
