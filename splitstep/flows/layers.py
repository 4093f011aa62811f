"""The layers of a causal model: found by running it, and fewer of them as a smaller model."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

from torch import nn

from ..models import SplitstepModel
from ..models.base import all_stacks
from .blocks import Call, check_chains, find_chains, following, list_name
from .examples import made_up

COUNTS = ("num_hidden_layers", "layers")  # what configs call the number of layers; the first is transformers' own name
CAUSAL = ("ForCausalLM", "LMHeadModel")  # how classes of causal models are called


def check_causal(model: Any, name: str) -> None:
    """Refuse a model that does not predict the next token."""
    causal = type(model).__name__.endswith(CAUSAL) and not model.config.is_encoder_decoder
    if not causal:
        raise ValueError(
            f"{name} is a {type(model).__name__}, which is not a causal language model: name one that predicts the "
            "next token, such as a ...ForCausalLM"
        )


def block_calls(model: Any, name: str) -> list[Call]:
    """The calls of the blocks that lead to the output, in the order in which they run."""
    training = model.training
    model.eval()
    try:
        chains = following(find_chains(model, lambda: model(**made_up(model, name), use_cache=False)))
    finally:
        model.train(training)
    if not chains:
        raise ValueError(f"{name}: no blocks that follow one another were found; it needs at least two layers")
    last = list(chains)[-1]
    check_chains(name, {last: chains[last]})
    return chains[last]


def layers_of(model: Any, name: str) -> list[nn.Module]:
    """The layers of a model: its blocks, or those of our own stacks."""
    if isinstance(model, SplitstepModel):
        return [layer for stack in all_stacks(model) for layer in stack.layers]
    return [call.module for call in block_calls(model, name)]


def layer_list(model: Any, name: str) -> nn.ModuleList:
    """The one list in which all layers stand, in order."""
    layers = layers_of(model, name)
    names = {module: path for path, module in model.named_modules()}
    home = model.get_submodule(list_name(names[layers[0]]))
    if not isinstance(home, nn.ModuleList) or list(home) != layers:
        raise ValueError(f"{name}: its layers are not one list, so none can be left out: name a student instead")
    return home


def kept_layers(count: int, layers: int) -> list[int]:
    """Which layers stay: the last, and evenly those before it. Of 30, 10 keep every third: 2, 5, .. 29."""
    return [(number + 1) * layers // count - 1 for number in range(count)]


def with_layers(model: Any, count: int, name: str) -> Any:
    """The model with so many of its layers, the other weights as they are; the model itself is taken apart."""
    home = layer_list(model, name)
    if not 1 < count <= len(home):
        why = "it has no more" if count > 1 else "layers are found as blocks that follow one another, at least two"
        raise ValueError(
            f"{name} has {len(home)} layers, of which {count} cannot be kept, for {why}: set --student-layers, in a "
            f"recipe model.layers, to a number from 2 to {len(home)}"
        )
    kept = kept_layers(count, len(home))
    config = smaller_config(model.config, kept, len(home))
    weights, prefix = model.state_dict(), name_of(model, home)
    made = type(model)._from_config(config, dtype=model.dtype)
    names = {name: source_name(name, prefix, kept) for name in made.state_dict()}
    made.load_state_dict({name: weights[source] for name, source in names.items()})
    made.tie_weights()
    made.generation_config = deepcopy(model.generation_config)
    return made.eval()


def name_of(model: nn.Module, module: nn.Module) -> str:
    return next(name for name, one in model.named_modules() if one is module)


def source_name(name: str, prefix: str, kept: list[int]) -> str:
    """The name in the whole model of a weight of the smaller one."""
    if not name.startswith(f"{prefix}."):
        return name
    number, _, rest = name.removeprefix(f"{prefix}.").partition(".")
    return f"{prefix}.{kept[int(number)]}.{rest}"


def smaller_config(config: Any, kept: list[int], layers: int) -> Any:
    """The config for so many layers; entries that have one value a layer keep those of the layers that stay."""
    made = deepcopy(config)
    for key, value in config.to_dict().items():
        if isinstance(value, list | tuple) and len(value) == layers:
            setattr(made, key, [value[number] for number in kept])
    for name in COUNTS:
        with suppress(AttributeError):
            if getattr(config, name) == layers:
                setattr(made, name, len(kept))
    made.architectures = [*(config.architectures or [])]
    return made
