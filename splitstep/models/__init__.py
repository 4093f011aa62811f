"""Hugging Face models over one `Stack`; importing this registers the Auto classes."""

from ..support.memory import uncollected

with uncollected():
    from ..shape import KINDS
    from .base import SplitstepModel
    from .block import BlockConfig, SplitstepBlockForCausalLM
    from .causal import CausalConfig, SplitstepCausalModel, SplitstepForCausalLM
    from .config import SplitstepConfig
    from .contract import meet
    from .cost import Cost, cost, twin
    from .encoder import (
        MaskedConfig,
        SequenceConfig,
        SplitstepForMaskedLM,
        SplitstepForSequenceClassification,
        SplitstepMaskedModel,
        SplitstepSequenceModel,
    )
    from .rebuilt import coarsened, refined
    from .translation import SplitstepForTranslation, SplitstepTranslationModel, TranslationConfig
    from .vectors import (
        ImageConfig,
        SplitstepForImageClassification,
        SplitstepImageModel,
        SplitstepVectorsModel,
        VectorsConfig,
    )

__all__ = [
    "KINDS", "BlockConfig", "CausalConfig", "Cost", "ImageConfig", "MaskedConfig", "SequenceConfig",
    "SplitstepBlockForCausalLM", "SplitstepCausalModel", "SplitstepConfig", "SplitstepForCausalLM",
    "SplitstepForImageClassification", "SplitstepForMaskedLM", "SplitstepForSequenceClassification",
    "SplitstepForTranslation", "SplitstepImageModel", "SplitstepMaskedModel", "SplitstepModel",
    "SplitstepSequenceModel", "SplitstepTranslationModel", "SplitstepVectorsModel", "TranslationConfig",
    "VectorsConfig", "coarsened", "cost", "meet", "refined", "twin",
]  # fmt: skip
