"""The causal language model."""

from __future__ import annotations

from typing import Any, ClassVar, final

from torch import Tensor, nn
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from ..integrate import Observe
from ..kernels.loss import cross_entropy, shifted
from ..kernels.output_product import project
from ..shape import CausalShape
from .arguments import answer, check_arguments, given_one, kept
from .base import SplitstepGenerationMixin, TextModel, VocabularyHead
from .body import Body, Embedding, seed_for
from .cache import check_room, past_of
from .config import SplitstepConfig
from .inputs import check_labels, check_positions
from .kinds import kind
from .masks import packed_documents, packed_mask
from .watch import Watch


class CausalConfig(CausalShape, SplitstepConfig):
    """A language model that predicts the next token."""

    model_type: ClassVar[str] = "splitstep-causal"


class CausalModel(TextModel):
    """What models over one causal stack share: from tokens to states."""

    config_class = CausalConfig
    tokens_at = "embedding.tokens"
    embedding: Embedding
    body: Body

    def cache_for(self, given: Any, use_cache: bool | None, wanted: bool = True) -> Any:
        """The caller's cache, or a new one if the config or the caller asks for it outside of training."""
        caching = self.config.use_cache if use_cache is None else use_cache
        return DynamicCache() if given is None and caching and wanted and not self.training else given

    def read(
        self,
        watch: Watch,
        cache: Any,
        tokens: Tensor | None,
        embeds: Tensor | None,
        mask: Tensor | None,
        positions: Tensor | None,
        types: Tensor | None,
        dropout_seed: Tensor | None,
    ) -> Tensor:
        """The states of tokens, or of their vectors, after those in the cache."""
        given = given_one(tokens, embeds)
        documents = None
        if positions is not None and mask is None and cache is None:
            check_positions(positions, given)
            documents = packed_documents(positions)
            mask = packed_mask(documents)
        past = past_of(cache, self.body.slots)
        if self.body.slots.own:
            check_room(past, given.shape[1], mask)
        seed = seed_for(self, self.config, dropout_seed, given.device)
        x, context = self.embedding(
            tokens, mask, seed, past, types=types, positions=positions, embeds=embeds, documents=documents
        )
        return self.body(x, context._replace(cache=cache, record=watch.record), watch.observe)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> BaseModelOutputWithPast:
        """The states, as the model without a head returns them."""
        check_arguments(self, others, packed=position_ids is not None)
        cache = self.cache_for(past_key_values, use_cache)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(
            watch, cache, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed
        )
        out = BaseModelOutputWithPast(x, cache, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


class SplitstepForCausalLM(VocabularyHead, CausalModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A causal language model over one stack."""

    _tied_weights_keys = {"head.weight": f"{CausalModel.tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: CausalConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config)
        self.body = Body(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        check_arguments(self, others, packed=position_ids is not None)
        cache = self.cache_for(past_key_values, use_cache, labels is None)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(
            watch, cache, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed
        )
        logits, wide = project(self.head, kept(x, logits_to_keep))
        loss = None
        if labels is not None:
            check_labels(labels, logits)
            loss = cross_entropy(logits, shifted(labels), num_items_in_batch, wide=wide)
        out = CausalLMOutputWithPast(loss, logits, cache, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


@final
class SplitstepCausalModel(CausalModel):
    """A causal language model without its head."""

    per_token = ()

    def __init__(self, config: CausalConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config)
        self.body = Body(config)
        self.post_init()

    forward = CausalModel.bare


CAUSAL = kind("causal", CausalConfig, SplitstepForCausalLM, AutoModelForCausalLM, SplitstepCausalModel)
