"""Inputs of a model: those that somebody gives, checked, or made up to run it for the first time."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

EXAMPLES, LENGTH = 2, 12


def as_inputs(model: Any, inputs: Mapping[str, Any] | Tensor) -> dict[str, Any]:
    """Inputs by name, on the model's device; a tensor alone is the main input."""
    named = {model.main_input_name: inputs} if isinstance(inputs, Tensor) else dict(inputs)
    device = next(model.parameters()).device
    return {name: one.to(device) if isinstance(one, Tensor) else one for name, one in named.items()}


def positions(model: nn.Module) -> int | None:
    """The longest text of a model, if its config says so."""
    config: Any = model.config
    most = getattr(config.get_text_config(), "max_position_embeddings", None)
    return most if most is not None and most > 0 else None  # XLNet says -1


def check_length(model: Any, name: str, inputs: Mapping[str, Any]) -> None:
    """Refuse a text that is longer than the model's positions."""
    ids, most = inputs.get("input_ids"), positions(model)
    if isinstance(ids, Tensor) and most is not None and most < ids.shape[-1]:
        raise ValueError(f"{name} has {most} positions and was given a text of {ids.shape[-1]} tokens: cut it")


def made_up(model: Any, name: str) -> dict[str, Tensor]:
    """Random inputs on the model's device: texts of 12 tokens, or an image of the size that the config names."""
    weights = next(model.parameters())
    config, main = model.config, model.main_input_name
    random = torch.Generator().manual_seed(0)
    if main == "input_ids":
        text = config.get_text_config()
        length = min(LENGTH, positions(model) or LENGTH)
        ids = torch.randint(text.vocab_size, (EXAMPLES, length), generator=random).to(weights.device)
        more = {"decoder_input_ids": ids.flip(0)} if config.is_encoder_decoder else {}
        return {"input_ids": ids, **more}
    size = getattr(config, "image_size", None)
    if main != "pixel_values" or size is None:
        raise ValueError(f"{name} takes {main}: pass an example of its inputs, as in load({name!r}, inputs=...)")
    height, width = (size, size) if isinstance(size, int) else size
    return {main: torch.randn(EXAMPLES, config.num_channels, height, width, generator=random).to(weights)}


def turned(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Other inputs of the same shapes: texts begin with their last token, images and sounds run backwards."""

    def other(name: str, x: Any) -> Any:
        if not isinstance(x, Tensor) or x.ndim < 2 or name.endswith("mask"):
            return x
        return x.flip(-1) if x.is_floating_point() else x.roll(1, 1) if name.endswith("input_ids") else x

    return {name: other(name, x) for name, x in inputs.items()}
