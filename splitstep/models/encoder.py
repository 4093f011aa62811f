"""Tokens to states under a padding mask, and what the models with one such encoder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput

from ..integrate import Observe
from ..kernels.loss import cross_entropy
from .base import TextModel
from .body import Body, Embedding, Watch, seed_for


class Encoder(nn.Module):
    """Tokens to states: embedding and body under a padding mask."""

    main_input_name = "input_ids"  # `generate` asks for it

    def __init__(self, config: Any, salts: Iterator[int] | None = None) -> None:
        super().__init__()
        self.config = config
        body = Body(config, 0, salts)  # before the embedding: weights are drawn in this order
        self.embedding = Embedding(config)
        self.body = body

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        seed: Tensor | None = None,
        observe: Observe | None = None,
    ) -> Tensor:
        x, context = self.embedding(input_ids, attention_mask, seed, types=token_type_ids)
        return self.body(x, context, observe)


class EncoderModel(TextModel):
    """What the models with one encoder share. Each defines `read_out`, and the record that it returns."""

    base_model_prefix = "encoder"
    tokens_at = "encoder.embedding.tokens"
    encoder: Encoder
    Output: type[MaskedLMOutput] | type[SequenceClassifierOutput]

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Logits of the states, plain and as `cross_entropy` reads them: what `project` returns."""
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
        watch = Watch(self.config, observe, output_hidden_states)
        x = self.encoder(input_ids, attention_mask, token_type_ids, seed, watch.observe)
        logits, wide = self.read_out(x, attention_mask)
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch, wide=wide)
        return self.Output(loss, logits, watch.states(x))  # pyright: ignore
