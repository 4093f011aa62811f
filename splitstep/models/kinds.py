"""Kinds of models by name: the file of each model registers its own."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from transformers import AutoConfig

from ..support.registry import Registry
from .base import SplitstepModel
from .config import SplitstepConfig


class Kind(NamedTuple):
    """A config, the model that it describes, and the Auto class of transformers that makes such models."""

    config: type[SplitstepConfig]
    model: type[SplitstepModel]
    auto: Any


KINDS: Registry[Kind] = Registry("kind")


def registered(config: type[SplitstepConfig], model: type[SplitstepModel], auto: Any) -> Kind:
    """A kind that transformers knows: `auto` makes and loads its models."""
    AutoConfig.register(config.model_type, config)
    auto.register(config, model)
    return Kind(config, model, auto)


def model_of(config: SplitstepConfig) -> type[SplitstepModel]:
    """The class of the models that this config describes."""
    found = (kind.model for kind in chain(KINDS.own.values(), KINDS.values()) if kind.config is type(config))
    model = next(found, None)
    if model is None:
        names = ", ".join(kind.config.__name__ for kind in KINDS.values())
        raise ValueError(f"{type(config).__name__} is the config of no model: use one of {names}.")
    return model
