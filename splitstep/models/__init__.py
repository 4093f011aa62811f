"""Hugging Face models over one `Stack`; importing this registers the Auto classes."""

from ..support.imports import uncollected

with uncollected():
    from ..shape import KINDS
    from .base import SplitstepModel
    from .causal import CausalConfig, SplitstepCausalModel, SplitstepForCausalLM
    from .config import SplitstepConfig
    from .cost import Cost, cost, twin
    from .depth import coarsened, refined
    from .image import ImageConfig, SplitstepForImageClassification, SplitstepImageModel
    from .masked import MaskedConfig, SplitstepForMaskedLM, SplitstepMaskedModel
    from .sequence import SequenceConfig, SplitstepForSequenceClassification, SplitstepSequenceModel
    from .translation import SplitstepForTranslation, SplitstepTranslationModel, TranslationConfig
    from .vectors import SplitstepVectorsModel, VectorsConfig

__all__ = [
    "KINDS", "CausalConfig", "Cost", "ImageConfig", "MaskedConfig", "SequenceConfig", "SplitstepCausalModel",
    "SplitstepConfig", "SplitstepForCausalLM", "SplitstepForImageClassification", "SplitstepForMaskedLM",
    "SplitstepForSequenceClassification", "SplitstepForTranslation", "SplitstepImageModel", "SplitstepMaskedModel",
    "SplitstepModel", "SplitstepSequenceModel", "SplitstepTranslationModel", "SplitstepVectorsModel",
    "TranslationConfig", "VectorsConfig", "coarsened", "cost", "refined", "twin",
]  # fmt: skip
