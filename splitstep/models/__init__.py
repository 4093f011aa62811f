"""Hugging Face models over one `Stack`; importing this registers the Auto classes."""

from ..support.imports import uncollected

with uncollected():
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageClassification,
        AutoModelForMaskedLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    from .base import SplitstepModel
    from .causal import SplitstepForCausalLM
    from .classifiers import SplitstepForImageClassification, SplitstepForSequenceClassification
    from .config import CausalConfig, ImageConfig, MaskedConfig, SequenceConfig, SplitstepConfig, TranslationConfig
    from .cost import Cost, cost, summary, twin
    from .masked import SplitstepForMaskedLM
    from .models import MODELS
    from .translation import SplitstepForTranslation

for _config, _model, _auto in (
    (CausalConfig, SplitstepForCausalLM, AutoModelForCausalLM),
    (MaskedConfig, SplitstepForMaskedLM, AutoModelForMaskedLM),
    (SequenceConfig, SplitstepForSequenceClassification, AutoModelForSequenceClassification),
    (ImageConfig, SplitstepForImageClassification, AutoModelForImageClassification),
    (TranslationConfig, SplitstepForTranslation, AutoModelForSeq2SeqLM),
):
    AutoConfig.register(_config.model_type, _config)
    _auto.register(_config, _model)

CONFIGS: dict[str, type[SplitstepConfig]] = {
    "causal": CausalConfig,
    "masked": MaskedConfig,
    "sequence": SequenceConfig,
    "image": ImageConfig,
    "translation": TranslationConfig,
}

__all__ = [
    "CONFIGS", "MODELS", "CausalConfig", "Cost", "ImageConfig", "MaskedConfig", "SequenceConfig",
    "SplitstepConfig", "SplitstepForCausalLM", "SplitstepForImageClassification", "SplitstepForMaskedLM",
    "SplitstepForSequenceClassification", "SplitstepForTranslation", "SplitstepModel", "TranslationConfig",
    "cost", "summary", "twin",
]  # fmt: skip
