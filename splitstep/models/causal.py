"""The causal language model."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from ..integrate import Observe
from ..kernels.loss import cross_entropy, shifted
from ..kernels.output_product import project
from .base import SplitstepGenerationMixin, TextModel, VocabularyHead
from .body import Body, Embedding, Watch, seed_for
from .config import TextConfig
from .kinds import KINDS, kind


class CausalConfig(TextConfig):
    """A language model that predicts the next token."""

    model_type: ClassVar[str] = "splitstep-causal"


class SplitstepForCausalLM(VocabularyHead, TextModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A causal language model over one stack."""

    config_class = CausalConfig
    tokens_at = "embedding.tokens"
    _tied_weights_keys = {"head.weight": f"{tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: CausalConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config)
        self.body = Body(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        **unused: Any,
    ) -> CausalLMOutputWithPast:
        caching = self.config.use_cache if use_cache is None else use_cache
        if past_key_values is None and caching and not self.training and labels is None:
            past_key_values = DynamicCache()
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        seed = seed_for(self, self.config, dropout_seed, input_ids.device)
        watch = Watch(self.config, observe, output_hidden_states)
        x, context = self.embedding(input_ids, attention_mask, seed, past, positions=position_ids)
        x = self.body(x, context._replace(cache=past_key_values), watch.observe)
        logits, wide = project(self.head, x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None if labels is None else cross_entropy(logits, shifted(labels), num_items_in_batch, wide=wide)
        return CausalLMOutputWithPast(loss, logits, past_key_values, watch.states(x))  # pyright: ignore


KINDS.add("causal", kind(CausalConfig, SplitstepForCausalLM, AutoModelForCausalLM))
