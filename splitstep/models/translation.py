"""The translator: an encoder-decoder."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar, final

from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput

from ..integrate import Observe
from ..kernels.loss import cross_entropy, decoder_inputs
from ..kernels.output_product import project
from ..shape import TranslationShape
from .arguments import answer, check_arguments, given_one
from .base import SplitstepGenerationMixin, TextModel, VocabularyHead
from .body import EMBEDDING_SALT, Body, seed_for
from .cache import SourceKeys, check_room, past_of
from .config import SplitstepConfig
from .encoder import Encoder
from .inputs import check_labels
from .kinds import kind
from .masks import padding_barrier
from .watch import Watch


class TranslationConfig(TranslationShape, SplitstepConfig):
    """An encoder-decoder."""

    model_type: ClassVar[str] = "splitstep-translation"


class TranslationModel(TextModel):
    """What encoder-decoders share: one embedding for source, target and output, and two stacks."""

    config_class = TranslationConfig
    base_model_prefix = "decoder"
    tokens_at = "encoder.embedding.tokens"
    encoder: Encoder
    decoder: Body

    def build(self, config: TranslationConfig) -> None:
        salts = count()
        self.encoder = Encoder(config, salts)
        self.decoder = Body(config, 1, salts)

    def get_encoder(self, *unused: Any, **also_unused: Any) -> nn.Module:
        return EncoderForGeneration(self.encoder)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's input when these labels are to be predicted."""
        return decoder_inputs(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def read(
        self,
        observe: Observe | None,
        wanted: tuple[bool | None, bool | None],
        cache: Any,
        source: tuple[Any, Tensor | None, Tensor | None, Tensor | None],
        target: tuple[Tensor | None, Tensor | None, Tensor | None],
        dropout_seed: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """The decoder's states, and what transformers' records for encoder-decoders hold after them.

        `wanted`: hidden states, attention weights; `source`: the encoder's outputs, else its tokens or vectors, and the
        mask; `target`: tokens or vectors, and the mask.
        """
        first, second = (Watch(self.config, observe, *wanted) for _ in range(2))
        seed = seed_for(self, self.config, dropout_seed, given_one(*target[:2], "decoder_").device)
        outputs, ids, embeds, mask = source
        memory = self.encode(first, ids, embeds, mask, seed) if outputs is None else outputs[0]
        y = self.decode(second, cache, memory, mask, *target, seed)
        seen = second.states(y), second.attentions(), second.attentions("cross"), memory
        return y, (cache, *seen, *seen_of(outputs, first, memory))

    def encode(
        self, watch: Watch, source: Tensor | None, embeds: Tensor | None, mask: Tensor | None, seed: Tensor | None
    ) -> Tensor:
        """The encoder's states."""
        if source is None and embeds is None:
            raise ValueError("A translation model needs input_ids, inputs_embeds or encoder_outputs.")
        return self.encoder(source, mask, None, seed, watch, None, embeds)

    def decode(
        self,
        watch: Watch,
        cache: Any,
        memory: Tensor,
        memory_mask: Tensor | None,
        target: Tensor | None,
        embeds: Tensor | None,
        mask: Tensor | None,
        seed: Tensor | None,
    ) -> Tensor:
        """The decoder's states, after the tokens in the cache."""
        if cache is not None and not isinstance(cache, EncoderDecoderCache):
            raise ValueError(
                f"past_key_values is a {type(cache).__name__}: a translation model needs an EncoderDecoderCache of two."
            )
        past = past_of(cache, self.decoder.slots)
        if self.decoder.slots.own:
            check_room(past, given_one(target, embeds, "decoder_").shape[1], mask)
        embedding = self.encoder.embedding
        y, context = embedding(target, mask, seed, past, EMBEDDING_SALT + 4, embeds=embeds)
        barrier = padding_barrier(memory_mask, embedding.tokens.weight)
        context = context._replace(memory=memory, memory_mask=barrier, record=watch.record)
        if cache is not None:
            keys = SourceKeys(cache, memory.shape[1])
            context = context._replace(cache=cache.self_attention_cache, cross_cache=keys)
        return self.decoder(y, context, watch.observe)

    def bare(
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
        """The states, as the model without a head returns them."""
        check_arguments(self, others)
        y, seen = self.read(
            observe, (output_hidden_states, output_attentions), past_key_values,
            (encoder_outputs, input_ids, inputs_embeds, attention_mask),
            (decoder_input_ids, decoder_inputs_embeds, decoder_attention_mask), dropout_seed,
        )  # fmt: skip
        return answer(self.config, return_dict, Seq2SeqModelOutput(y, *seen))  # pyright: ignore


class SplitstepForTranslation(VocabularyHead, TranslationModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An encoder-decoder: one embedding for source, target and output; the decoder's scheme gains cross-attention."""

    _tied_weights_keys = {"head.weight": f"{TranslationModel.tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
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
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        observe: Observe | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        check_arguments(self, others)
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if labels is None:
                raise ValueError("A translation model needs labels or decoder_input_ids beside input_ids.")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        y, seen = self.read(
            observe, (output_hidden_states, output_attentions), past_key_values,
            (encoder_outputs, input_ids, inputs_embeds, attention_mask),
            (decoder_input_ids, decoder_inputs_embeds, decoder_attention_mask), dropout_seed,
        )  # fmt: skip
        logits, wide = project(self.head, y)
        loss = None
        if labels is not None:
            check_labels(labels, logits)
            loss = cross_entropy(logits, labels, num_items_in_batch, self.config.label_smoothing, wide)
        return answer(self.config, return_dict, Seq2SeqLMOutput(loss, logits, *seen))  # pyright: ignore


def seen_of(given: Any, watch: Watch, memory: Tensor) -> tuple[Any, Any]:
    """Hidden states and attention weights of the encoder, as its outputs hold them or as they were just seen."""
    if given is None:
        return watch.states(memory), watch.attentions()
    return getattr(given, "hidden_states", None), getattr(given, "attentions", None)


class EncoderForGeneration(nn.Module):
    """The encoder with the signature that `generate` calls."""

    main_input_name = "input_ids"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput:
        watch = Watch(self.encoder.config, None, output_hidden_states, output_attentions)
        x = self.encoder(input_ids, attention_mask, None, None, watch, None, inputs_embeds)
        out = BaseModelOutput(x, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.encoder.config, return_dict, out)


@final
class SplitstepTranslationModel(TranslationModel):
    """A translator without its head."""

    per_token = ()

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.post_init()

    forward = TranslationModel.bare


TRANSLATION = kind(
    "translation", TranslationConfig, SplitstepForTranslation, AutoModelForSeq2SeqLM, SplitstepTranslationModel
)
