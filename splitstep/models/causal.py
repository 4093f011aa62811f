"""The causal language model."""

from typing import Any, ClassVar, Unpack, final

from torch import Tensor, nn
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from ..shape import CausalShape
from .base import SplitstepGenerationMixin, SplitstepModel, VocabularyHead
from .body import Body, Embedding
from .cache import check_room, past_of
from .config import Kind, SplitstepConfig, kind
from .inputs import Text, restarted
from .outputs import Look, PassOptions, read_tokens


class CausalConfig(CausalShape, SplitstepConfig):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A language model that predicts the next token."""

    model_type: ClassVar[str] = "splitstep-causal"


class CausalModel(SplitstepModel):
    """What models over one causal stack share: from tokens to states."""

    config_class = CausalConfig
    input_at = "embedding.tokens"

    def build(self, config: CausalConfig) -> None:
        self.embedding = Embedding(config)
        self.body = Body(config)

    def cache_for(self, given: Any, use_cache: bool | None, wanted: bool = True) -> Any:
        """The caller's cache, or a new one if the config or the caller asks for it outside of training."""
        caching = self.config.use_cache if use_cache is None else use_cache
        return DynamicCache() if given is None and caching and wanted and not self.training else given

    def read(self, look: Look, text: Text, cache: Any) -> Tensor:
        """The states of tokens, or of their vectors, after those in the cache."""
        given = text.given()
        text = restarted(text) if cache is None else text
        past = past_of(cache, self.body.slots)
        check_room(past, given.shape[1], text.mask)
        x, context = self.embedding(text, self.seed(look, given.device), past)
        return self.body.shown(x, context._replace(cache=cache), look)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> BaseModelOutputWithPast:
        """The states, as the model without a head returns them."""
        look, cache = self.look(options, packed=position_ids is not None), self.cache_for(past_key_values, use_cache)
        x = self.read(look, Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds), cache)
        return look.answer(BaseModelOutputWithPast(x, cache, *look.seen(x)))  # pyright: ignore[reportArgumentType]


class SplitstepForCausalLM(VocabularyHead, CausalModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A causal language model over one stack."""

    _tied_weights_keys = {"head.weight": f"{CausalModel.input_at}.weight"}  # noqa: RUF012

    def build(self, config: CausalConfig) -> None:
        super().build(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

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
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> CausalLMOutputWithPast:
        look = self.look(options, packed=position_ids is not None)
        cache = self.cache_for(past_key_values, use_cache, labels is None)
        x = self.read(look, Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds), cache)
        logits, loss = read_tokens(self.head, kept(x, logits_to_keep), labels, num_items_in_batch, ahead=True)
        return look.answer(CausalLMOutputWithPast(loss, logits, cache, *look.seen(x)))  # pyright: ignore[reportArgumentType]


def kept(x: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """The states whose logits are wanted: the last few, those at an index, or all if it is 0."""
    if isinstance(logits_to_keep, Tensor):
        return x[:, logits_to_keep]
    return x[:, -logits_to_keep:] if logits_to_keep else x


@final
class SplitstepCausalModel(CausalModel):
    """A causal language model without its head."""

    forward = CausalModel.bare


CAUSAL = kind("causal", Kind(CausalConfig, SplitstepForCausalLM, AutoModelForCausalLM, SplitstepCausalModel))
