"""splitstep: a Transformer is a splitting scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .integrate import Event, Field, Site, Step, integrate, refine, uniform
from .scheme import Scheme, average, compose, decoder, unshare, with_tableau
from .schemes import SCHEMES, scheme
from .tableau import TABLEAUX, Tableau

if TYPE_CHECKING:
    from .models import (
        CausalConfig,
        ImageConfig,
        MaskedConfig,
        SequenceConfig,
        SplitstepForCausalLM,
        SplitstepForImageClassification,
        SplitstepForMaskedLM,
        SplitstepForSequenceClassification,
        SplitstepForTranslation,
        TranslationConfig,
        cost,
        twin,
    )
    from .stack import Stack

__all__ = [
    "SCHEMES", "TABLEAUX", "CausalConfig", "Event", "Field", "ImageConfig", "MaskedConfig", "Scheme", "SequenceConfig",
    "Site", "SplitstepForCausalLM", "SplitstepForImageClassification", "SplitstepForMaskedLM",
    "SplitstepForSequenceClassification", "SplitstepForTranslation", "Stack", "Step", "Tableau", "TranslationConfig",
    "average", "compose", "cost", "decoder", "integrate", "refine", "scheme", "twin", "uniform", "unshare",
    "with_tableau",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The network and the models, on first use: they bring torch and transformers."""
    if name == "Stack":
        from .stack import Stack

        return Stack
    if name in __all__:
        from . import models

        return getattr(models, name)
    raise AttributeError(f"module 'splitstep' has no attribute {name!r}")
