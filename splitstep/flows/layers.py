"""The layers of a model: found by running it, and some of them as a smaller model."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from torch import nn

from ..models import SplitstepConfig, SplitstepModel
from ..models.base import all_stacks
from ..support.words import listed
from .blocks import Call, check_chains, find_chains, following, list_name
from .examples import made_up

COUNTS = ("num_hidden_layers", "layers")  # what configs call the number of layers; the first is transformers' own name
COUNTED = re.compile("(layers?|blocks?|depth)$")  # other names of it, such as num_decoder_layers
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
    """The layers that lead to a model's output: its blocks, or those of our own stack."""
    if isinstance(model, SplitstepModel):
        return list([*all_stacks(model)][-1].layers)
    return [call.module for call in block_calls(model, name)]


def layer_list(model: Any, name: str) -> nn.ModuleList:
    """The one list in which all layers stand, in order."""
    layers = layers_of(model, name)
    names = {module: path for path, module in model.named_modules()}
    home = model.get_submodule(list_name(names[layers[0]]))
    if not isinstance(home, nn.ModuleList) or list(home) != layers:
        raise ValueError(f"{name}: its layers are not one list, so no model without some of them can be made")
    return home


def kept_layers(count: int, layers: int) -> list[int]:
    """Which layers stay: the last, and evenly those before it. Of 30, 10 keep every third: 2, 5, .. 29."""
    return [(number + 1) * layers // count - 1 for number in range(count)]


def with_layers(model: Any, count: int, name: str) -> Any:
    """The model with so many of its layers, the other weights as they are; the model itself is taken apart."""
    home = layer_list(model, name)
    if not 1 < count <= len(home):
        raise ValueError(
            f"{name} has {'only ' * (count > 1)}{len(home)} layers; cannot keep {count}: set --student-layers, in a "
            f"recipe model.layers, to a number from 2 to {len(home)}"
        )
    return only_layers(model, kept_layers(count, len(home)), name)


def only_layers(model: Any, kept: Sequence[int], name: str) -> Any:
    """The model with these of its layers, the other weights as they are; the model itself is taken apart."""
    home = layer_list(model, name)
    kept = sorted({*kept} & {*range(len(home))})
    if len(kept) < 2:
        raise ValueError(f"{name} would have {len(kept)} of its {len(home)} layers: leave at least two")
    weights, prefix = model.state_dict(), next(path for path, one in model.named_modules() if one is home)
    for config in smaller_configs(model.config, kept, len(home)):
        made = built(type(model), config, model.dtype)
        if made is not None and len(made.get_submodule(prefix)) == len(kept):
            own = made.state_dict()
            found = {one: x for one in own if (x := weights.get(source_name(one, prefix, kept))) is not None}
            if {one: x.shape for one, x in found.items()} == {one: x.shape for one, x in own.items()}:
                made.load_state_dict(found)
                made.tie_weights()
                if model.can_generate():
                    made.generation_config = deepcopy(model.generation_config)
                return made.eval()
    alone = f"layers {listed([*map(str, kept)])} of {len(home)} alone"
    raise ValueError(
        f"{name}: a config.json cannot describe a {type(model).__name__} that has {alone}, so leave out other ones"
    )


def built(kind: Any, config: Any, dtype: Any) -> Any:
    """A model of this class; None if it refuses the config, in which an entry may have been no number of layers."""
    try:
        return kind._from_config(config, dtype=dtype)
    except (ValueError, TypeError, StrictDataclassError):
        return None


def source_name(name: str, prefix: str, kept: Sequence[int]) -> str:
    """The name in the whole model of a weight of the smaller one."""
    if not name.startswith(f"{prefix}."):
        return name
    number, _, rest = name.removeprefix(f"{prefix}.").partition(".")
    return f"{prefix}.{kept[int(number)]}.{rest}"


def smaller_configs(config: Any, kept: Sequence[int], layers: int) -> Iterator[Any]:
    """Configs for so many layers: by the usual entries, then by each other that may say how many there are. Entries
    that have one value a layer keep those of the layers that stay."""
    made = deepcopy(config)
    made.architectures = [*(config.architectures or [])]
    text = made.get_text_config()  # a part of it, if the model reads more than text
    entries = text.to_dict()
    for key, value in entries.items():
        if isinstance(value, list | tuple) and len(value) == layers:
            setattr(text, key, [value[number] for number in kept])
    if isinstance(config, SplitstepConfig) and isinstance(config.ffn, list):  # a width for each field, not each layer
        *before, rows = config.ffn_rows()
        made.ffn = [width for one in (*before, [rows[number] for number in kept]) for row in one for width in row]
    others = (key for key, value in entries.items() if COUNTED.search(key) and value == layers)
    for names in (COUNTS, *((key,) for key in others)):
        yield with_counts(made, names, layers, len(kept))


def with_counts(config: Any, names: Sequence[str], layers: int, count: int) -> Any:
    """The config in which those of these entries that say how many layers there are say so many."""
    made = deepcopy(config)
    text = made.get_text_config()
    for name in names:
        with suppress(AttributeError):
            if getattr(text, name) == layers:
                setattr(text, name, count)
    return made
