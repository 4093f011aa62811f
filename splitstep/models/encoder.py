"""Tokens to states under a padding mask, what the models with one such encoder share, and the classifier of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Unpack, final

from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from ..kernels.loss import project
from ..shape import SequenceShape
from .base import SplitstepModel
from .body import Body, Embedding
from .config import Kind, SplitstepConfig, kind
from .inputs import Text, numbered
from .look import Look, PassOptions
from .losses import class_loss


class Encoder(nn.Module):
    """Tokens to states: embedding and body under a padding mask."""

    main_input_name = "input_ids"  # `generate` asks for it

    def __init__(self, config: Any, salts: Iterator[int] | None = None) -> None:
        super().__init__()
        self.config = config
        body = Body(config, 0, salts)  # before the embedding: weights are drawn in this order
        self.embedding = Embedding(config)
        self.body = body

    def forward(self, text: Text, seed: Tensor | None = None, look: Look | None = None) -> Tensor:
        """States of the tokens."""
        x, context = self.embedding(text, seed)
        return self.body(x, context) if look is None else self.body.shown(x, context, look)


class EncoderModel(SplitstepModel):
    """What the models with one encoder share: from tokens to states."""

    base_model_prefix = "encoder"
    input_at = "encoder.embedding.tokens"

    def build(self, config: Any) -> None:
        self.encoder = Encoder(config)

    def read(self, look: Look, text: Text) -> Tensor:
        """The states of tokens, or of their vectors."""
        return self.encoder(text, self.seed(look, text.given().device), look)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> BaseModelOutput:
        """The states, as the model without a head returns them."""
        look, text = self.look(options), Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        x = self.read(look, numbered(text, seq_idx))
        return look.answer(BaseModelOutput(x, *look.seen(x)))  # pyright: ignore[reportArgumentType]


class SequenceConfig(SequenceShape, SplitstepConfig):
    """A classifier of token sequences."""

    model_type: ClassVar[str] = "splitstep-sequence"


class SplitstepForSequenceClassification(EncoderModel):
    """A classifier of token sequences."""

    config_class = SequenceConfig
    per_example = ("head",)

    def build(self, config: SequenceConfig) -> None:
        super().build(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is self.head and self.config.head_start == "zero":
            nn.init.zeros_(self.head.weight)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> SequenceClassifierOutput:
        look = self.look(options)
        x = self.read(look, Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds))
        logits, wide = project(self.head, pooled(x, attention_mask, self.config.pool))
        loss = None if labels is None else class_loss(self.config, logits, labels, num_items_in_batch, wide)
        return look.answer(SequenceClassifierOutput(loss, logits, *look.seen(x)))  # pyright: ignore[reportArgumentType]


def pooled(x: Tensor, mask: Tensor | None, pool: str) -> Tensor:
    """One vector per sequence: the first token's, or the mean over tokens that are not padding."""
    if pool == "first":
        return x[:, 0]
    if mask is None:
        return x.mean(1)
    if mask.ndim != 2:
        raise ValueError(
            f"A mean over tokens needs to know the padding: pass an attention_mask [batch, tokens], not one of shape "
            f"{list(mask.shape)}, or use pool=first."
        )
    weight = mask.to(x.dtype)[..., None]
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


@final
class SplitstepSequenceModel(EncoderModel):
    """A classifier of token sequences without its head."""

    config_class = SequenceConfig
    forward = EncoderModel.bare


AUTO = AutoModelForSequenceClassification
SEQUENCE = kind("sequence", Kind(SequenceConfig, SplitstepForSequenceClassification, AUTO, SplitstepSequenceModel))
