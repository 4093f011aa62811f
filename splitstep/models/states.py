"""Models without a head, which `AutoModel` opens: from tokens or pixels to states."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor
from transformers import AutoModel
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPast, Seq2SeqModelOutput

from ..integrate import Observe
from .arguments import answer, check_arguments, given_one
from .body import Body, Embedding, seed_for
from .causal import CausalConfig, CausalModel
from .encoder import Encoder, EncoderModel
from .image import ImageConfig, ImageModel
from .masked import MaskedConfig
from .sequence import SequenceConfig
from .translation import TranslationConfig, TranslationModel, seen_of
from .watch import Watch


@final
class SplitstepCausalModel(CausalModel):
    """A causal language model without its head."""

    per_token = ()

    def __init__(self, config: CausalConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config)
        self.body = Body(config)
        self.post_init()

    def forward(
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
        check_arguments(self, others)
        cache = self.cache_for(past_key_values, use_cache)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(
            watch, cache, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed
        )
        out = BaseModelOutputWithPast(x, cache, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


class EncoderStates(EncoderModel):
    """What encoders without a head share. Each has the config of a model with one."""

    per_token = ()

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.post_init()

    def forward(
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
        **others: Any,
    ) -> BaseModelOutput:
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed)
        return answer(self.config, return_dict, BaseModelOutput(x, watch.states(x), watch.attentions()))  # pyright: ignore


@final
class SplitstepMaskedModel(EncoderStates):
    """A masked language model without its head."""

    config_class = MaskedConfig


@final
class SplitstepSequenceModel(EncoderStates):
    """A classifier of token sequences without its head."""

    config_class = SequenceConfig


@final
class SplitstepImageModel(ImageModel):
    """A classifier of images without its head: a state for each patch."""

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.post_init()

    def forward(
        self,
        pixel_values: Tensor,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> BaseModelOutput:
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, pixel_values, dropout_seed)
        return answer(self.config, return_dict, BaseModelOutput(x, watch.states(x), watch.attentions()))  # pyright: ignore


@final
class SplitstepTranslationModel(TranslationModel):
    """A translator without its head."""

    per_token = ()

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        dropout_seed: Tensor | None = None,
        observe: Observe | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Seq2SeqModelOutput:
        check_arguments(self, others)
        target = given_one(decoder_input_ids, decoder_inputs_embeds, "decoder_")
        seed = seed_for(self, self.config, dropout_seed, target.device)
        first, second = self.watches(observe, output_hidden_states, output_attentions)
        if encoder_outputs is None:
            memory = self.encode(first, input_ids, inputs_embeds, attention_mask, seed)
        else:
            memory = encoder_outputs[0]
        y = self.decode(
            second, past_key_values, memory, attention_mask, decoder_input_ids, decoder_inputs_embeds,
            decoder_attention_mask, seed,
        )  # fmt: skip
        out = Seq2SeqModelOutput(
            y, past_key_values, second.states(y), second.attentions(), second.attentions("cross"), memory,
            *seen_of(encoder_outputs, first, memory),
        )  # fmt: skip  # pyright: ignore
        return answer(self.config, return_dict, out)


BODIES = (
    SplitstepCausalModel, SplitstepMaskedModel, SplitstepSequenceModel, SplitstepImageModel, SplitstepTranslationModel,
)  # fmt: skip
for body in BODIES:
    AutoModel.register(body.config_class, body)
