"""Configurations: the shape of a network as Hugging Face keeps it, `config.json` and all."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from ..operators import ACTIVATIONS, NORMS
from ..operators.attention import check_heads
from ..scheme import Scheme, decoder
from ..schemes import scheme

FORMAT = 1  # of config.json; a reader refuses a newer one


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        near = get_close_matches(value, choices, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}.{hint}")


@strict
class SplitstepConfig(PreTrainedConfig):
    """What every model shares: a scheme, the shape of its fields, norms, positions, dropouts, initialisation.

    `scheme` takes a row's name or a notation and is kept as canonical text. `ffn` is the inner width of each
    feed-forward field: one number, or a list with one entry per field, layer by layer. A scheme with projections is
    post-norm: its fields carry no norm of their own and the stack ends without one.
    """

    model_type: ClassVar[str] = "splitstep"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "width",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "num_key_value_heads": "kv_heads",
        "intermediate_size": "ffn",
        "max_position_embeddings": "max_positions",
    }

    format: int = FORMAT
    scheme: str = "A F"
    step: float | int = 1.0
    layers: int = 6
    width: int = 512
    heads: int = 8
    kv_heads: int | None = None
    ffn: int | list[int] = 2048
    activation: str | dict[str, str] = "gelu"
    norm: str = "layer"
    norm_affine: bool = True
    norm_eps: float = 1e-5
    bias: bool = True
    positions: Literal["none", "sinusoidal", "learned", "rotary"] = "learned"
    rotary_base: float | int = 10000.0
    max_positions: int = 1024
    dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    init: Literal["normal", "xavier"] = "normal"
    init_std: float = 0.02
    matched: dict[str, Any] | None = None  # what an equal-cost twin was matched to, and both counts

    def __post_init__(self, **kwargs: Any) -> None:
        if not isinstance(self.format, int) or self.format > FORMAT:
            raise ValueError(
                f"This config has format {self.format}, newer than {FORMAT}, the newest that this version of splitstep "
                "reads: install a newer splitstep (pip install -U splitstep)."
            )
        ours = [f.name for f in fields(self)] + list(self.attribute_map)
        for key in kwargs:
            if near := get_close_matches(key, ours, 1, 0.8):
                raise ValueError(f"Unknown config entry {key}={kwargs[key]!r}: did you mean {near[0]}?")
        for name in ("layers", "width", "heads", "max_positions"):
            value = getattr(self, name)
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"{name}={value!r} must be a positive whole number.")
        if not isinstance(self.step, (int, float)) or not self.step > 0:
            raise ValueError(f"step={self.step!r} must be a positive number.")
        super().__post_init__(**kwargs)
        self.scheme = str(scheme(self.scheme))
        check_choice("norm", self.norm, NORMS)
        for name in self.activation.values() if isinstance(self.activation, dict) else [self.activation]:
            check_choice("activation", name, tuple(ACTIVATIONS))
        check_heads(self.width, self.heads, self.kv_heads or self.heads)
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is a probability: use a number in [0, 1).")
        self.check_ffn()

    def check_ffn(self) -> None:
        widths = self.ffn if isinstance(self.ffn, list) else [self.ffn]
        need = sum(layers * sum(n[0] == "F" for n in s.fields) for s, layers in self.stacks())
        if isinstance(self.ffn, list) and len(widths) != need:
            raise ValueError(f"ffn lists {len(widths)} widths; this network has {need} feed-forward fields.")
        if any(w <= 0 for w in widths):
            raise ValueError(f"ffn={self.ffn} must be positive.")

    def stacks(self) -> list[tuple[Scheme, int]]:
        """The schemes that the network runs, each with its number of layers."""
        return [(scheme(self.scheme), self.layers)]


@strict
class TextConfig(SplitstepConfig):
    """What models of token sequences share."""

    vocab_size: int = 256
    embedding_scale: float | int = 1.0
    embedding_norm: bool = False
    token_types: int = 0
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = True
    use_cache: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.vocab_size <= 0:
            raise ValueError(f"vocab_size={self.vocab_size} must be positive.")


@strict
class CausalConfig(TextConfig):
    """A language model that predicts the next token."""

    model_type: ClassVar[str] = "splitstep-causal"


@strict
class MaskedConfig(TextConfig):
    """A language model that fills masked tokens in; the head transforms (dense, activation, norm) as BERT's does."""

    model_type: ClassVar[str] = "splitstep-masked"


@strict
class SequenceConfig(TextConfig):
    """A classifier of token sequences; `pool` is what the head reads: the "mean" over tokens or the "first" one."""

    model_type: ClassVar[str] = "splitstep-sequence"

    pool: Literal["mean", "first"] = "mean"


@strict
class ImageConfig(SplitstepConfig):
    """A classifier of images cut into square patches."""

    model_type: ClassVar[str] = "splitstep-image"
    attribute_map: ClassVar[dict[str, str]] = {
        **SplitstepConfig.attribute_map,
        "num_channels": "channels",
        "patch_size": "patch",
    }

    image_size: int = 28
    channels: int = 1
    patch: int = 4

    def __post_init__(self, **kwargs: Any) -> None:
        if self.image_size % self.patch:
            raise ValueError(f"image_size={self.image_size} is not divisible by patch={self.patch}.")
        self.max_positions = (self.image_size // self.patch) ** 2
        super().__post_init__(**kwargs)


@strict
class TranslationConfig(TextConfig):
    """An encoder-decoder with one embedding for source, target and output. The decoder's scheme gains C."""

    model_type: ClassVar[str] = "splitstep-translation"

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

    def stacks(self) -> list[tuple[Scheme, int]]:
        encoder = scheme(self.scheme)
        return [(encoder, self.layers), (decoder(encoder), self.decoder_layers)]
