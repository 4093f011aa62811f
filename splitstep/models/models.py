"""The models: embed -> Stack -> head, as Hugging Face `PreTrainedModel`s."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutputWithPast,
    ImageClassifierOutput,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
)

from ..integrate import Observe
from ..operators import ACTIVATIONS, Context, norm
from ..operators.loss import IGNORED, cross_entropy, shifted
from ..operators.project import project
from .body import (
    EMBEDDING_SALT,
    Body,
    Embedding,
    Watch,
    causal_mask,
    ffn_widths,
    key_mask,
    positions_of,
    seed_for,
    sinusoids,
    turn,
    waves,
)
from .config import CausalConfig, ImageConfig, MaskedConfig, SequenceConfig, SplitstepConfig, TranslationConfig


def refuse_pickles(place: Any, subfolder: str) -> None:
    """An error that names the pickle, where a directory holds one and no safetensors."""
    folder = Path(place or "") / subfolder
    if place is None or not folder.is_dir() or any(folder.glob("*.safetensors")):
        return
    if pickles := sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl")):
        raise ValueError(
            f"{folder} holds {pickles[0]} and no model.safetensors. That file is a pickle, which can run code when it "
            "is read, so splitstep does not open it: save the model with save_pretrained, which writes safetensors."
        )


def refuse_mismatch(place: Any, info: dict[str, Any], resize: bool, own: bool) -> None:
    """An error that names the first weights which config and checkpoint do not share."""
    wrong = {name: f"has shape {list(found)}, not {list(wanted)}" for name, found, wanted in info["mismatched_keys"]}
    problems = {} if resize else wrong
    if own:
        problems |= dict.fromkeys(info["missing_keys"], "is missing")
        problems |= dict.fromkeys(info["unexpected_keys"], "is unknown to this config")
    if problems:
        name = min(problems)
        more = f", and {len(problems) - 1} more like it" if len(problems) > 1 else ""
        raise ValueError(
            f"The checkpoint {place} does not fit its config: {name} {problems[name]}{more}. Use the config.json that "
            "was saved with these weights."
        )


@final
class SourceCache(DynamicCache):
    """Keys and values of the source. Beams change places within their source only, which is the same for all of them:
    there is nothing to reorder, where transformers would copy everything in every step."""

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Leave everything in its place."""


class SplitstepModel(PreTrainedModel):
    """What all models share: initialisation and the lazy cache, which has a slot for every evaluation of attention."""

    config: Any
    config_class = SplitstepConfig
    base_model_prefix = "body"
    _supports_sdpa = True

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """The saved model, from safetensors only: a pickle can run code when it is read, so none is opened.

        Weights that are missing, unknown or of the wrong shape are an error where the checkpoint is one of this class;
        another model's checkpoint may bring a part of the weights.
        """
        place = pretrained_model_name_or_path
        if kwargs.pop("use_safetensors", None) is False:
            raise ValueError("use_safetensors=False asks for a pickle, which splitstep does not open: leave it out.")
        refuse_pickles(place, kwargs.get("subfolder", ""))
        resize, informed = kwargs.pop("ignore_mismatched_sizes", False), kwargs.pop("output_loading_info", False)
        try:
            model, info = super().from_pretrained(  # pyright: ignore[reportGeneralTypeIssues]
                place, *args, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True, **kwargs
            )
        except SafetensorError as error:
            raise ValueError(
                f"The weights in {place} are damaged ({error}): copy the checkpoint again, or use an earlier one."
            ) from None
        refuse_mismatch(place, info, resize, (model.config.architectures or [cls.__name__]) == [cls.__name__])
        return (model, info) if informed else model

    def _init_weights(self, module: nn.Module) -> None:
        config: SplitstepConfig = self.config
        if isinstance(module, nn.Linear):
            if config.init == "xavier":
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=config.init_std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=config.width**-0.5 if config.init == "xavier" else config.init_std)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            if module.weight is not None:
                nn.init.ones_(module.weight)
            if isinstance(module, nn.LayerNorm) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Embedding) and module.waves is not None:  # no file holds them
            with torch.no_grad():
                module.waves.copy_(waves(module.config))

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: dict[str, Any], *rest: Any) -> Any:
        """transformers sizes its cache by layers; a scheme needs a slot per evaluation, so start with a lazy one."""
        lazy = generation_config.use_cache is not False and generation_config.cache_implementation is None
        if not lazy or model_kwargs.get("past_key_values") is not None:
            return super()._prepare_cache_for_generation(generation_config, model_kwargs, *rest)  # pyright: ignore
        cache = DynamicCache()
        encdec = self.config.is_encoder_decoder
        model_kwargs["past_key_values"] = EncoderDecoderCache(cache, SourceCache()) if encdec else cache
        return None

    def observer(self, observe: Observe | None, hidden: bool | None) -> tuple[Observe | None, Watch | None]:
        if not (self.config.output_hidden_states if hidden is None else hidden):
            return observe, None
        watch = Watch(observe)
        return watch, watch


def states_of(watch: Watch | None, last: Tensor) -> tuple[Tensor, ...] | None:
    """The states at the start of every step and the normalised last one, as Hugging Face counts hidden states."""
    return None if watch is None else (*watch.states, last)


def single_body(config: SplitstepConfig) -> Body:
    [(scheme, layers)] = config.stacks()
    return Body(config, scheme, layers, ffn_widths(config), count())


class SplitstepForCausalLM(SplitstepModel, GenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A causal language model over one stack."""

    config_class = CausalConfig
    _tied_weights_keys = {"head.weight": "embedding.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: CausalConfig) -> None:
        super().__init__(config)
        self.embedding = Embedding(config)
        self.body = single_body(config)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embedding.tokens = value  # pyright: ignore

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.head = new_embeddings  # pyright: ignore

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
        length, device = input_ids.shape[1], input_ids.device
        caching = self.config.use_cache if use_cache is None else use_cache
        if past_key_values is None and caching and not self.training and labels is None:
            past_key_values = DynamicCache()
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        check_length(past + length, self.config)
        known = past + length if position_ids is None else None
        if position_ids is None:
            position_ids = positions_of(attention_mask, length, past, device)
        seed = seed_for(self, self.config, dropout_seed, device)
        mask = causal_mask(attention_mask, length, past, self.embedding.tokens.weight)
        context = Context(
            mask=mask,
            causal=mask is None and length > 1,
            rotary=turn(self.config, position_ids),
            cache=past_key_values,
            seed=seed,
        )
        observe, watch = self.observer(observe, output_hidden_states)
        x = self.embedding(input_ids, position_ids, None, seed, EMBEDDING_SALT, known)
        x = self.body(x, context, observe)
        logits, wide = project(self.head, x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None if labels is None else cross_entropy(logits, shifted(labels), num_items_in_batch, wide=wide)
        return CausalLMOutputWithPast(loss, logits, past_key_values, states_of(watch, x))  # pyright: ignore


def check_length(length: int, config: SplitstepConfig) -> None:
    if config.positions == "learned" and length > config.max_positions:
        raise ValueError(
            f"{length} tokens are more than this model's max_positions={config.max_positions} learned positions: "
            "shorten the input or generate fewer tokens."
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
        check_length(input_ids.shape[1], self.config)
        positions = positions_of(attention_mask, input_ids.shape[1], 0, input_ids.device)
        mask = key_mask(attention_mask, self.embedding.tokens.weight)
        context = Context(mask=mask, rotary=turn(self.config, positions), seed=seed)
        x = self.embedding(input_ids, positions, token_type_ids, seed, EMBEDDING_SALT, input_ids.shape[1])
        return self.body(x, context, observe)


class EncoderModel(SplitstepModel):
    """What the models over one encoder share. Each says how it reads the states out, and what record it returns."""

    base_model_prefix = "encoder"
    encoder: Encoder
    Output: type[MaskedLMOutput] | type[SequenceClassifierOutput]

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embedding.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.embedding.tokens = value  # pyright: ignore

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


class SplitstepForMaskedLM(EncoderModel):
    """A masked language model: encoder, then dense, activation, norm and the tied output matrix with a bias."""

    config_class = MaskedConfig
    Output = MaskedLMOutput
    _tied_weights_keys = {"head.weight": "encoder.embedding.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config, single_body(config), Embedding(config))
        self.transform = nn.Linear(config.width, config.width)
        self.norm = norm(config.norm, config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.head = new_embeddings  # pyright: ignore

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return project(self.head, self.norm(ACTIVATIONS["gelu"](self.transform(x))))


class SplitstepForSequenceClassification(EncoderModel):
    """A classifier of token sequences."""

    config_class = SequenceConfig
    Output = SequenceClassifierOutput

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config, single_body(config), Embedding(config))
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]
        self.post_init()

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return project(self.head, pooled(x, mask, self.config.pool))


def pooled(x: Tensor, mask: Tensor | None, pool: str) -> Tensor:
    """One vector per sequence: the first token's, or the mean over tokens that are no padding."""
    if pool == "first":
        return x[:, 0]
    if mask is None:
        return x.mean(1)
    weight = mask.to(x.dtype)[..., None]
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


class SplitstepForImageClassification(SplitstepModel):
    """A classifier of images: linear patches, learned positions, stack, mean, head."""

    config_class = ImageConfig
    main_input_name = "pixel_values"

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        self.patches = nn.Linear(config.channels * config.patch**2, config.width)
        self.places = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        self.body = single_body(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]
        self.post_init()

    def cut(self, pixels: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, patches, C * patch * patch]."""
        p = self.config.patch
        return pixels.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        **unused: Any,
    ) -> ImageClassifierOutput:
        expected = (self.config.channels, self.config.image_size, self.config.image_size)
        if pixel_values.shape[1:] != expected:
            raise ValueError(
                f"pixel_values have shape {tuple(pixel_values.shape)}: this model takes [batch, {expected}]."
            )
        seed = seed_for(self, self.config, dropout_seed, pixel_values.device)
        observe, watch = self.observer(observe, output_hidden_states)
        x = self.patches(self.cut(pixel_values)).to(self.patches.weight.dtype)  # autocast would narrow the stream
        positions = torch.arange(x.shape[1], device=x.device)[None]
        if self.places is not None:
            x = x + self.places(positions)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(positions, self.config.width).to(x.dtype)
        x = self.body(x, Context(rotary=turn(self.config, positions), seed=seed), observe)
        logits = self.head(x.mean(1))
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch)
        return ImageClassifierOutput(loss, logits, states_of(watch, x))  # pyright: ignore


class SplitstepForTranslation(SplitstepModel, GenerationMixin):  # pyright: ignore[reportIncompatibleMethodOverride]
    """An encoder-decoder: one embedding for source, target and output; the decoder's scheme gains cross-attention."""

    config_class = TranslationConfig
    base_model_prefix = "decoder"
    _tied_weights_keys = {"head.weight": "encoder.embedding.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: TranslationConfig) -> None:
        super().__init__(config)
        widths, salts = ffn_widths(config), count()
        (scheme, layers), (decoder_scheme, decoder_layers) = config.stacks()
        self.encoder = Encoder(config, Body(config, scheme, layers, widths, salts), Embedding(config))
        self.decoder = Body(config, decoder_scheme, decoder_layers, widths, salts)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embedding.tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.embedding.tokens = value  # pyright: ignore

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.head = new_embeddings  # pyright: ignore

    def get_encoder(self, *unused: Any, **also_unused: Any) -> nn.Module:
        return EncoderForGeneration(self.encoder)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Labels moved one to the right behind the start token; what is ignored becomes padding."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        moved = torch.cat((start, labels[:, :-1]), 1)
        return moved.masked_fill(moved == IGNORED, self.config.pad_token_id)

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
        length, device = decoder_input_ids.shape[1], decoder_input_ids.device
        seed = seed_for(self, self.config, dropout_seed, device)
        if encoder_outputs is None:
            assert input_ids is not None
            memory = self.encoder(input_ids, attention_mask, None, seed, observe)
        else:
            memory = encoder_outputs[0]
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        check_length(past + length, self.config)
        positions = positions_of(decoder_attention_mask, length, past, device)
        weight = self.encoder.embedding.tokens.weight
        mask = causal_mask(decoder_attention_mask, length, past, weight)
        context = Context(
            mask=mask,
            causal=mask is None and length > 1,
            rotary=turn(self.config, positions),
            cache=None if past_key_values is None else past_key_values.self_attention_cache,
            cross_cache=None if past_key_values is None else past_key_values.cross_attention_cache,
            memory=memory,
            memory_mask=key_mask(attention_mask, weight),
            seed=seed,
        )
        y = self.encoder.embedding(decoder_input_ids, positions, None, seed, EMBEDDING_SALT + 4, past + length)
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


MODELS: dict[str, type[SplitstepModel]] = {
    "causal": SplitstepForCausalLM,
    "masked": SplitstepForMaskedLM,
    "sequence": SplitstepForSequenceClassification,
    "image": SplitstepForImageClassification,
    "translation": SplitstepForTranslation,
}


def all_stacks(model: SplitstepModel) -> Iterator[Any]:
    """The stacks of a model, in order."""
    from ..stack import Stack

    yield from (module for module in model.modules() if isinstance(module, Stack))
