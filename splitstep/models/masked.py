"""The masked language model."""

from __future__ import annotations

from typing import ClassVar, final

from torch import Tensor, nn
from transformers import AutoModelForMaskedLM
from transformers.modeling_outputs import MaskedLMOutput

from ..fields import ACTIVATIONS, norm
from ..kernels.loss import cross_entropy
from ..kernels.output_product import project
from .base import VocabularyHead
from .config import TextConfig
from .encoder import Encoder, EncoderHead, EncoderModel, EncoderStates
from .inputs import check_labels
from .kinds import KINDS, kind


class MaskedConfig(TextConfig):
    """A language model that fills in masked tokens, with BERT's head: dense, activation, norm, output matrix."""

    model_type: ClassVar[str] = "splitstep-masked"


class SplitstepForMaskedLM(VocabularyHead, EncoderHead):
    """A masked language model: encoder, then dense, activation, norm and the tied output matrix with a bias."""

    config_class = MaskedConfig
    Output = MaskedLMOutput
    per_token = ("transform", "head")
    _tied_weights_keys = {"head.weight": f"{EncoderModel.tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.transform = nn.Linear(config.width, config.width)
        self.norm = norm(config.norm, config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab_size)
        self.post_init()

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return project(self.head, self.norm(ACTIVATIONS["gelu"](self.transform(x))))

    def loss_of(self, logits: Tensor, labels: Tensor, items: Tensor | int | None, wide: Tensor) -> Tensor:
        check_labels(labels, logits)
        return cross_entropy(logits, labels, items, wide=wide)


@final
class SplitstepMaskedModel(EncoderStates):
    """A masked language model without its head."""

    config_class = MaskedConfig


KINDS.add("masked", kind(MaskedConfig, SplitstepForMaskedLM, AutoModelForMaskedLM, SplitstepMaskedModel))
