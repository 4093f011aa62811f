"""Tokens to states under a padding mask, and what the models with one such encoder share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from ..integrate import Observe
from .arguments import answer, check_arguments, given_one
from .base import TextModel
from .body import Body, Embedding, seed_for
from .inputs import check_seq_idx
from .masks import numbered_texts, restarting_positions, same_text
from .watch import Watch


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
        input_ids: Tensor | None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        seed: Tensor | None = None,
        watch: Watch | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
    ) -> Tensor:
        """States of the tokens. `seq_idx` is the number of each token's text in rows of several texts each: none looks
        at another, and positions begin anew with each."""
        texts = None
        if seq_idx is not None:
            check_seq_idx(seq_idx, given_one(input_ids, inputs_embeds))
            texts = numbered_texts(seq_idx, attention_mask)
            attention_mask = same_text(texts)
            position_ids = restarting_positions(texts) if position_ids is None else position_ids
        x, context = self.embedding(
            input_ids, attention_mask, seed, types=token_type_ids, positions=position_ids, embeds=inputs_embeds,
            documents=texts,
        )  # fmt: skip
        if watch is None:
            return self.body(x, context)
        return self.body(x, context._replace(record=watch.record), watch.observe)


class EncoderModel(TextModel):
    """What the models with one encoder share: from tokens to states."""

    base_model_prefix = "encoder"
    tokens_at = "encoder.embedding.tokens"
    encoder: Encoder

    def read(
        self,
        watch: Watch,
        tokens: Tensor | None,
        embeds: Tensor | None,
        mask: Tensor | None,
        positions: Tensor | None,
        types: Tensor | None,
        dropout_seed: Tensor | None,
        seq_idx: Tensor | None = None,
    ) -> Tensor:
        """The states of tokens, or of their vectors."""
        seed = seed_for(self, self.config, dropout_seed, given_one(tokens, embeds).device)
        return self.encoder(tokens, mask, types, seed, watch, positions, embeds, seq_idx)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        seq_idx: Tensor | None = None,
        **others: Any,
    ) -> BaseModelOutput:
        """The states, as the model without a head returns them."""
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(
            watch, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed, seq_idx
        )
        return answer(self.config, return_dict, BaseModelOutput(x, watch.states(x), watch.attentions()))  # pyright: ignore


class EncoderStates(EncoderModel):
    """What encoders without a head share. Each has the config of a model with one."""

    per_token = ()

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.post_init()

    forward = EncoderModel.bare
