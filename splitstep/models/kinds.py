"""Kinds of models by name: the file of each model registers its own."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from transformers import AutoConfig

from ..support.registry import Registry
from .base import SplitstepModel
from .config import SplitstepConfig


class Kind(NamedTuple):
    """A config, its model, and the Auto class of transformers that makes and loads such models."""

    config: type[SplitstepConfig]
    model: type[SplitstepModel]
    auto: Any


KINDS: Registry[Kind] = Registry("kind")


def kind(config: type[SplitstepConfig], model: type[SplitstepModel], auto: Any) -> Kind:
    """A kind of models, registered with transformers."""
    AutoConfig.register(config.model_type, config)
    auto.register(config, model)
    return Kind(config, model, auto)


def model_of(config: SplitstepConfig) -> type[SplitstepModel]:
    """The class of the models that this config describes."""
    for one in chain(KINDS.own.values(), KINDS.values()):  # ours first: they need no import
        if one.config is type(config):
            return one.model
    names = ", ".join(one.config.__name__ for one in KINDS.values())
    raise ValueError(f"{type(config).__name__} does not belong to a model: use one of {names}.")
