"""How a model of others is called: in evaluation mode, without a cache, with random numbers from one seed."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig

SEED = 0


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
