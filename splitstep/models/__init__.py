"""Hugging Face models over one `Stack`; importing this registers the Auto classes."""

from ..support.imports import uncollected

with uncollected():
    from .base import SplitstepModel
    from .causal import CausalConfig, SplitstepForCausalLM
    from .config import SplitstepConfig
    from .cost import Cost, cost, twin
    from .depth import coarsened, refined
    from .image import ImageConfig, SplitstepForImageClassification
    from .kinds import KINDS
    from .masked import MaskedConfig, SplitstepForMaskedLM
    from .sequence import SequenceConfig, SplitstepForSequenceClassification
    from .states import (
        SplitstepCausalModel,
        SplitstepImageModel,
        SplitstepMaskedModel,
        SplitstepSequenceModel,
        SplitstepTranslationModel,
    )
    from .translation import SplitstepForTranslation, TranslationConfig

__all__ = [
    "KINDS", "CausalConfig", "Cost", "ImageConfig", "MaskedConfig", "SequenceConfig", "SplitstepCausalModel",
    "SplitstepConfig", "SplitstepForCausalLM", "SplitstepForImageClassification", "SplitstepForMaskedLM",
    "SplitstepForSequenceClassification", "SplitstepForTranslation", "SplitstepImageModel", "SplitstepMaskedModel",
    "SplitstepModel", "SplitstepSequenceModel", "SplitstepTranslationModel", "TranslationConfig", "coarsened", "cost",
    "refined", "twin",
]  # fmt: skip
