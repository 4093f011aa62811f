"""Inputs of a model: those that somebody gives, checked, or made up to run it for the first time, and others like them;
and how a model of others is called: without a cache, with random numbers from one seed."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

EXAMPLES, LENGTH, SEED = 2, 12, 0


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


def batch_of(inputs: Mapping[str, Any]) -> int:
    """How many examples there are: of the first input with several axes."""
    return next(len(x) for x in inputs.values() if isinstance(x, Tensor) and x.ndim > 1)


def examples_of(inputs: Mapping[str, Any], batch: int, chosen: Sequence[int]) -> dict[str, Any]:
    """The inputs of some examples of a batch."""

    def some(value: Any) -> Any:
        if not (isinstance(value, Tensor) and value.ndim and len(value) == batch):
            return value
        return value[torch.tensor(chosen, device=value.device)]

    return {name: some(value) for name, value in inputs.items()}


def exchanged_inputs(inputs: Mapping[str, Any], other: Callable[[str, Tensor], Tensor]) -> dict[str, Any]:
    """The inputs with another tensor in place of each that has several axes."""
    return {name: other(name, x) if isinstance(x, Tensor) and x.ndim > 1 else x for name, x in inputs.items()}


def turned(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Other inputs of the same shapes: texts begin with their last token, images and sounds run backwards."""

    def other(name: str, x: Tensor) -> Tensor:
        if name.endswith("mask"):
            return x
        return x.flip(-1) if x.is_floating_point() else x.roll(1, 1) if name.endswith("input_ids") else x

    return exchanged_inputs(inputs, other)


def text_lengths(inputs: Mapping[str, Any]) -> set[int]:
    return {x.shape[1] for name, x in inputs.items() if name.endswith("input_ids")}


def with_other_length(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Texts without their last token, images of twice the height and width, sounds of twice the length."""
    lengths = text_lengths(inputs)

    def other(name: str, x: Tensor) -> Tensor:
        if x.is_floating_point():
            same = min(2, x.ndim - 1)
            return x.repeat(*(1,) * same, *(2,) * (x.ndim - same))
        return x[:, :-1] if x.shape[1] in lengths else x

    return exchanged_inputs(inputs, other)


def with_start_moved(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Texts with another first token, images with another first pixel, sounds with another first number."""

    def other(name: str, x: Tensor) -> Tensor:
        if name.endswith("mask") or x.dtype is torch.bool:
            return x
        moved = x.clone()
        start = moved[(..., *[slice(1)] * min(2, x.ndim - 1))]
        start.copy_(start + 1 if x.is_floating_point() else torch.where(start > 0, start - 1, start + 1))
        return moved

    return exchanged_inputs(inputs, other)


def varied(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The inputs with their first example once more, with another length, and with another start."""
    batch = batch_of(inputs)
    return examples_of(inputs, batch, (*range(batch), 0)), with_other_length(inputs), with_start_moved(inputs)


def token_of(inputs: Mapping[str, Any], length: int, token: int) -> dict[str, Any]:
    """The inputs of one token of a text: a decoder's, if there is one. Images stay whole."""
    decodes = any(name.startswith("decoder_") for name in inputs)

    def other(name: str, x: Tensor) -> Tensor:
        own = not decodes or name.startswith("decoder_")
        return x[:, token : token + 1] if own and x.ndim < 4 and x.shape[1] == length else x

    return exchanged_inputs(inputs, other)


def called(model: Any, inputs: Mapping[str, Any], seed: int = SEED) -> tuple[Any, bool]:
    """What a model returns, without a cache of keys and values, and whether it drew random numbers; all passes draw the
    same."""
    named = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    with uncached(model), one_seed(model, seed) as drawn:
        return model(**{**named, **inputs}), drawn()


@contextmanager
def one_seed(model: nn.Module, seed: int) -> Iterator[Callable[[], bool]]:
    """Random numbers are those of one seed, and outside nobody notices. Yields whether some have been drawn."""
    device = next(model.parameters()).device
    on_gpu = [torch.cuda.default_generators[device.index]] if device.type == "cuda" else []
    generators = [torch.default_generator, *on_gpu]
    outside = [one.get_state() for one in generators]
    states = [one.manual_seed(seed).get_state() for one in generators]
    try:
        yield lambda: any(not one.get_state().equal(x) for one, x in zip(generators, states, strict=True))
    finally:
        for one, state in zip(generators, outside, strict=True):
            one.set_state(state)


@contextmanager
def uncached(model: Any) -> Iterator[None]:
    """Configs say that there is no cache of keys and values: blocks that write into one cannot be run again."""
    owned = (getattr(one, "config", None) for one in model.modules())
    configs = {id(one): one for one in (*owned, model.config.get_text_config()) if isinstance(one, PreTrainedConfig)}
    before = [(one, vars(one)["use_cache"]) for one in configs.values() if "use_cache" in vars(one)]
    for config, _ in before:
        config.use_cache = False
    try:
        yield
    finally:
        for config, value in before:
            config.use_cache = value
