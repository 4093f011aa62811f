"""The translator: an encoder-decoder."""

from itertools import count
from typing import Any, ClassVar, Unpack, final

from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput

from ..kernels.loss import decoder_inputs
from ..shape import TranslationShape
from .base import Headless, SplitstepGenerationMixin, SplitstepModel, VocabularyHead
from .body import EMBEDDING_SALT, Body
from .cache import SourceKeys, check_room, past_of
from .config import Kind, SplitstepConfig, kind
from .encoder import Encoder
from .inputs import Text, padding_barrier
from .outputs import Look, PassOptions, read_tokens


class TranslationConfig(TranslationShape, SplitstepConfig):
    """An encoder-decoder."""

    model_type: ClassVar[str] = "splitstep-translation"


class TranslationModel(SplitstepModel):
    """What encoder-decoders share: one embedding for source, target and output, and two stacks."""

    config_class = TranslationConfig
    base_model_prefix = "decoder"
    input_at = "encoder.embedding.tokens"

    def build(self, config: TranslationConfig) -> None:
        salts = count()
        self.encoder = Encoder(config, salts)
        self.decoder = Body(config, 1, salts)

    def get_encoder(self, *unused: Any, **also_unused: Any) -> nn.Module:
        return Headless(self.encode)

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutput:
        """The encoder's states, by the signature that `generate` calls."""
        asked = {"output_hidden_states": output_hidden_states, "output_attentions": output_attentions}
        look = Look(self.config, PassOptions(**asked, return_dict=return_dict))  # pyright: ignore[reportArgumentType]
        x = self.encoder(Text(input_ids, attention_mask, embeds=inputs_embeds), None, look)
        return look.answer(BaseModelOutput(x, *look.seen(x)))  # pyright: ignore[reportArgumentType]

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's input when these labels are to be predicted."""
        return decoder_inputs(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

    def read(
        self, options: PassOptions, cache: Any, outputs: Any, source: Text, target: Text
    ) -> tuple[Look, Tensor, tuple[Any, ...]]:
        """What the pass shows, the decoder's states, and what transformers' records for encoder-decoders hold after
        them. `outputs` are the encoder's, if an earlier call has made them."""
        first, second = self.look(options), self.look(options)
        seed = self.seed(second, target.given("decoder_").device)
        if outputs is None and source.ids is None and source.embeds is None:
            raise ValueError("A translation model needs input_ids, inputs_embeds or encoder_outputs.")
        memory = self.encoder(source, seed, first) if outputs is None else outputs[0]
        y = self.decode(second, cache, memory, source.mask, target, seed)
        seen = (*second.seen(y), second.attentions("cross"), memory)
        shown = (getattr(outputs, "hidden_states", None), getattr(outputs, "attentions", None))
        return second, y, (cache, *seen, *(first.seen(memory) if outputs is None else shown))

    def decode(
        self, look: Look, cache: Any, memory: Tensor, memory_mask: Tensor | None, target: Text, seed: Tensor | None
    ) -> Tensor:
        """The decoder's states, after the tokens in the cache."""
        if cache is not None and not isinstance(cache, EncoderDecoderCache):
            raise ValueError(
                f"past_key_values is a {type(cache).__name__}: a translation model needs an EncoderDecoderCache of two."
            )
        past = past_of(cache, self.decoder.slots)
        check_room(past, target.given("decoder_").shape[1], target.mask)
        embedding = self.encoder.embedding
        y, context = embedding(target, seed, past, EMBEDDING_SALT + 4)
        barrier = padding_barrier(memory_mask, embedding.tokens.weight)
        context = context._replace(memory=memory, memory_mask=barrier)
        if cache is not None:
            keys = SourceKeys(cache, memory.shape[1])
            context = context._replace(cache=cache.self_attention_cache, cross_cache=keys)
        return self.decoder.shown(y, context, look)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> Seq2SeqModelOutput:
        """The states, as the model without a head returns them."""
        source = Text(input_ids, attention_mask, embeds=inputs_embeds)
        target = Text(decoder_input_ids, decoder_attention_mask, embeds=decoder_inputs_embeds)
        look, y, seen = self.read(options, past_key_values, encoder_outputs, source, target)
        return look.answer(Seq2SeqModelOutput(y, *seen))  # pyright: ignore[reportArgumentType]


class SplitstepForTranslation(VocabularyHead, TranslationModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An encoder-decoder: one embedding for source, target and output; the decoder's scheme gains cross-attention."""

    _tied_weights_keys = {"head.weight": f"{TranslationModel.input_at}.weight"}  # noqa: RUF012

    def build(self, config: TranslationConfig) -> None:
        super().build(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)

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
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> Seq2SeqLMOutput:
        self.look(options)  # a misspelt `labels` is no lack of them
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            if labels is None:
                raise ValueError("A translation model needs labels or decoder_input_ids beside input_ids.")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        source = Text(input_ids, attention_mask, embeds=inputs_embeds)
        target = Text(decoder_input_ids, decoder_attention_mask, embeds=decoder_inputs_embeds)
        look, y, seen = self.read(options, past_key_values, encoder_outputs, source, target)
        logits, loss = read_tokens(self.head, y, labels, num_items_in_batch, self.config.label_smoothing)
        return look.answer(Seq2SeqLMOutput(loss, logits, *seen))  # pyright: ignore[reportArgumentType]


@final
class SplitstepTranslationModel(TranslationModel):
    """A translator without its head."""

    forward = TranslationModel.bare


TRANSLATION = kind(
    "translation",
    Kind(TranslationConfig, SplitstepForTranslation, AutoModelForSeq2SeqLM, SplitstepTranslationModel),
)
