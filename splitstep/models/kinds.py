"""Kinds of models by name: the file of each model registers its own."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from transformers import AutoConfig, AutoModel

from ..shape import KINDS
from .base import SplitstepModel
from .config import MADE_BY, SplitstepConfig


class Kind(NamedTuple):
    """A config, its model, the Auto class of transformers that makes and loads such models, and the model without its
    head, which `AutoModel` makes; None if there is none."""

    config: type[SplitstepConfig]
    model: type[SplitstepModel]
    auto: Any
    body: type[SplitstepModel] | None = None

    def made_by(self) -> dict[Any, type]:
        """The Auto classes of transformers, and the class that each makes."""
        bodies = {} if self.body is None else {AutoModel: self.body}
        return {AutoConfig: self.config, self.auto: self.model, **bodies}


def kind(
    name: str,
    config: type[SplitstepConfig],
    model: type[SplitstepModel],
    auto: Any,
    body: type[SplitstepModel] | None = None,
) -> Kind:
    """A kind of models, registered with this package and with transformers."""
    found = Kind(config, model, auto, body)
    AutoConfig.register(config.model_type, config)
    auto.register(config, model)
    if body is not None:
        AutoModel.register(config, body)
    MADE_BY[config] = {one.__name__: made for one, made in found.made_by().items()}
    return KINDS.add(name, found)


def kind_of(config: SplitstepConfig) -> Kind:
    """The kind of models that this config describes."""
    for one in chain(KINDS.own.values(), KINDS.values()):  # ours first: they need no import
        if one.config is type(config):
            return one
    names = ", ".join(one.config.__name__ for one in KINDS.values())
    raise ValueError(f"{type(config).__name__} does not belong to a model: use one of {names}.")


def model_of(config: SplitstepConfig) -> type[SplitstepModel]:
    """The class of the models that this config describes."""
    return kind_of(config).model
