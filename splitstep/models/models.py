"""The table of models by kind: embed -> Stack -> head, as Hugging Face `PreTrainedModel`s."""

from __future__ import annotations

from .base import SplitstepModel
from .causal import SplitstepForCausalLM
from .classifiers import SplitstepForImageClassification, SplitstepForSequenceClassification
from .masked import SplitstepForMaskedLM
from .translation import SplitstepForTranslation

MODELS: dict[str, type[SplitstepModel]] = {
    "causal": SplitstepForCausalLM,
    "masked": SplitstepForMaskedLM,
    "sequence": SplitstepForSequenceClassification,
    "image": SplitstepForImageClassification,
    "translation": SplitstepForTranslation,
}
