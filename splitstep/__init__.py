"""splitstep: a Transformer is a splitting scheme."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .integrate import Event, Field, Site, Step, integrate, refine, uniform
from .scheme import Scheme, average, compose, decoder, unshare, with_tableau
from .schemes import SCHEMES, scheme
from .tableau import TABLEAUX, Tableau

if TYPE_CHECKING:
    from .models import *  # noqa: F403
    from .stack import Stack

__all__ = [  # noqa: F405
    "SCHEMES", "TABLEAUX", "CausalConfig", "Event", "Field", "ImageConfig", "MaskedConfig", "Scheme", "SequenceConfig",
    "Site", "SplitstepCausalModel", "SplitstepForCausalLM", "SplitstepForImageClassification", "SplitstepForMaskedLM",
    "SplitstepForSequenceClassification", "SplitstepForTranslation", "SplitstepImageModel", "SplitstepMaskedModel",
    "SplitstepSequenceModel", "SplitstepTranslationModel", "Stack", "Step", "Tableau", "TranslationConfig", "average",
    "compose", "cost", "decoder", "integrate", "refine", "scheme", "twin", "uniform", "unshare", "with_tableau",
]  # fmt: skip
LAZY = {name: ".models" for name in __all__ if name not in globals()} | {"Stack": ".stack"}  # they import torch


def __getattr__(name: str) -> Any:
    """The network and the models, imported on first use."""
    if name not in LAZY:
        raise AttributeError(f"module 'splitstep' has no attribute {name!r}")
    return getattr(import_module(LAZY[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
