"""The translator: an encoder-decoder."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from ..integrate import Observe
from ..kernels.loss import cross_entropy, decoder_inputs
from ..kernels.output_product import project
from ..scheme import Scheme, decoder
from ..schemes import scheme
from .base import SplitstepGenerationMixin, TextModel, VocabularyHead
from .body import EMBEDDING_SALT, Body, seed_for
from .config import DEEPEST, TextConfig
from .encoder import Encoder
from .kinds import KINDS, kind


class TranslationConfig(TextConfig):
    """An encoder-decoder with one embedding for source, target and output. The decoder's scheme gains C."""

    model_type: ClassVar[str] = "splitstep-translation"
    depths: ClassVar[tuple[str, ...]] = ("layers", "decoder_layers")

    decoder_layers: int = 6
    positions: Literal["none", "sinusoidal", "learned", "rotary"] = "sinusoidal"
    activation: str | dict[str, str] = "relu"
    init: Literal["normal", "xavier"] = "xavier"
    label_smoothing: float | int = 0.0
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.check_positive("decoder_layers", most=DEEPEST)
        self.check_probability("label_smoothing")

    def stacks(self) -> list[tuple[Scheme, int]]:
        encoder = scheme(self.scheme)
        return [(encoder, self.layers), (decoder(encoder), self.decoder_layers)]


class SplitstepForTranslation(VocabularyHead, TextModel, SplitstepGenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An encoder-decoder: one embedding for source, target and output; the decoder's scheme gains cross-attention."""

    config_class = TranslationConfig
    base_model_prefix = "decoder"
    tokens_at = "encoder.embedding.tokens"
    _tied_weights_keys = {"head.weight": f"{tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        salts = count()
        self.encoder = Encoder(config, salts)
        self.decoder = Body(config, 1, salts)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_encoder(self, *unused: Any, **also_unused: Any) -> nn.Module:
        return EncoderForGeneration(self.encoder)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's input when these labels are to be predicted."""
        return decoder_inputs(labels, self.config.decoder_start_token_id, self.config.pad_token_id)

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
        **unused: Any,
    ) -> Seq2SeqLMOutput:
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("A translation model needs labels or decoder_input_ids beside input_ids.")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        seed = seed_for(self, self.config, dropout_seed, decoder_input_ids.device)
        if encoder_outputs is None:
            assert input_ids is not None
            memory = self.encoder(input_ids, attention_mask, None, seed, observe)
        else:
            memory = encoder_outputs[0]
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        embedding = self.encoder.embedding
        y, context = embedding(decoder_input_ids, decoder_attention_mask, seed, past, EMBEDDING_SALT + 4)
        context = context._replace(memory=memory, memory_mask=embedding.barrier(attention_mask))
        if past_key_values is not None:
            caches = past_key_values.self_attention_cache, past_key_values.cross_attention_cache
            context = context._replace(cache=caches[0], cross_cache=caches[1])
        logits, wide = project(self.head, self.decoder(y, context, observe))
        loss = None
        if labels is not None:
            loss = cross_entropy(logits, labels, num_items_in_batch, self.config.label_smoothing, wide)
        return Seq2SeqLMOutput(loss, logits, past_key_values, encoder_last_hidden_state=memory)  # pyright: ignore


class EncoderForGeneration(nn.Module):
    """The encoder with the signature that `generate` calls."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **unused: Any) -> BaseModelOutput:
        return BaseModelOutput(last_hidden_state=self.encoder(input_ids, attention_mask))  # pyright: ignore


KINDS.add("translation", kind(TranslationConfig, SplitstepForTranslation, AutoModelForSeq2SeqLM))
