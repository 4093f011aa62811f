"""Tokens to states under a padding mask, and what the models over one such encoder share."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput

from ..fields import Context
from ..integrate import Observe
from ..kernels.loss import cross_entropy
from .base import TextModel
from .body import (
    EMBEDDING_SALT,
    Body,
    Embedding,
    key_mask,
    positions_of,
    seed_for,
    states_of,
    turn,
)


class Encoder(nn.Module):
    """Tokens to states: embedding and body under a padding mask."""

    main_input_name = "input_ids"  # `generate` asks for it

    def __init__(self, config: Any, body: Body, embedding: Embedding) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        self.body = body

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        seed: Tensor | None = None,
        observe: Observe | None = None,
    ) -> Tensor:
        self.config.check_length(input_ids.shape[1])
        positions = positions_of(attention_mask, input_ids.shape[1], 0, input_ids.device)
        mask = key_mask(attention_mask, self.embedding.tokens.weight)
        context = Context(mask=mask, rotary=turn(self.config, positions), seed=seed)
        x = self.embedding(input_ids, positions, token_type_ids, seed, EMBEDDING_SALT, input_ids.shape[1])
        return self.body(x, context, observe)


class EncoderModel(TextModel):
    """What the models over one encoder share. Each says how it reads the states out, and what record it returns."""

    base_model_prefix = "encoder"
    tokens_at = "encoder.embedding.tokens"
    encoder: Encoder
    Output: type[MaskedLMOutput] | type[SequenceClassifierOutput]

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits of the states, and what `cross_entropy` reads in their place."""
        raise NotImplementedError

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        **unused: Any,
    ) -> MaskedLMOutput | SequenceClassifierOutput:
        seed = seed_for(self, self.config, dropout_seed, input_ids.device)
        observe, watch = self.observer(observe, output_hidden_states)
        x = self.encoder(input_ids, attention_mask, token_type_ids, seed, observe)
        logits, wide = self.read_out(x, attention_mask)
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch, wide=wide)
        return self.Output(loss, logits, states_of(watch, x))  # pyright: ignore
