"""Configurations: the shape of a network as Hugging Face keeps it, `config.json` and all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields
from inspect import get_annotations
from itertools import islice, repeat
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar, Literal, get_origin

from transformers import GenerationConfig, PreTrainedConfig

from ..fields import ACTIVATIONS, NORMS
from ..fields.attention import check_heads
from ..letters import LETTERS
from ..scheme import Scheme
from ..schemes import scheme
from ..stability import beyond_limit
from ..support.typed import read_as, suits
from ..support.words import NEAR, counted, nearest
from . import auto_map
from .cache import slots_of

FORMAT = 1  # of config.json; newer ones are refused
DEEPEST = 10_000  # layers: building each takes milliseconds, and comes before anything can weigh them
LARGEST = 10**8  # of a size: PyTorch can still count the bytes of a matrix of this height and width
THEIRS = frozenset(GenerationConfig().to_dict()) | {
    "attn_implementation", "auto_map", "experts_implementation", "name_or_path", "num_labels", "output_attentions",
    "per_layer_config", "quantization_config", "torch_dtype",
}  # fmt: skip  # entries that transformers accepts besides the fields of a config


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        hint = f" Did you mean {near!r}?" if (near := nearest(str(value), choices)) else ""
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}.{hint}")


def check_size(name: str, value: float, most: float) -> None:
    if not 0 < value < inf:
        raise ValueError(f"{name}={value} must be a positive number.")
    if value > most:
        raise ValueError(f"{name}={value} is too large: use at most {most:,}.")


def feed_forwards(s: Scheme) -> list[str]:
    return [name for name in s.fields if name[0] == "F"]


def names_fields(activation: Mapping[str, str], halves: Sequence[str]) -> bool:
    """Whether activations are given for all of a scheme's feed-forward fields and, besides, at most for those of other
    schemes: {F: gelu, F0: relu, F1: gelu} serves "A F" and "F0/2 A F1/2"."""
    return activation.keys() >= set(halves) and all(re.fullmatch(r"F\d*", name) for name in activation)


class SplitstepConfig(PreTrainedConfig):
    """What every model shares: a scheme, the shape of its fields, norms, positions, dropouts, initialisation.

    `scheme` takes a row's name or a notation and is kept as canonical text. Each layer runs `substeps` times, over
    equal parts of its step. A head is `head_size` wide, by default an equal share of the width. `ffn` is the inner
    width of each feed-forward field: one number, or a list with one entry per field, layer by layer. `activation` is
    one name, or a mapping of names of feed-forward fields, of which it may have more than the scheme. A scheme with
    projections is post-norm: its fields have no norm of their own and the stack ends without one. `rotary_bias` is the
    initial bias of all queries and keys: it makes rotary attention start local, with scores that fall with distance.

    `diffusion` is alpha of the letter D at the start, `ends` what happens at a document's ends; `stabiliser` is gamma
    of the letter S. If `init_modes` is not 0, initial weights are a smooth function of depth: a sum of so many waves.
    `norm_at` is "input" (x + f(norm(x))) or "both": x + norm(f(norm(x))), sandwich norms.
    """

    model_type: ClassVar[str] = "splitstep"
    _sized_for_cache: ClassVar[bool] = False
    depths: ClassVar[tuple[str, ...]] = ("layers",)  # the entries that count the layers of each stack, in order
    axes: ClassVar[int] = 1  # along which diffusion acts
    kinds_of_ends: ClassVar[tuple[str, ...]] = ("reflecting", "fixed")
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "width",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "num_key_value_heads": "kv_heads",
        "head_dim": "head_size",
        "intermediate_size": "ffn",
        "max_position_embeddings": "max_positions",
    }

    format: int = FORMAT
    scheme: str = "A F"
    step: float | int = 1.0
    substeps: int = 1
    layers: int = 6
    width: int = 512
    heads: int = 8
    kv_heads: int | None = None
    head_size: int | None = None
    ffn: int | list[int] = 2048
    activation: str | dict[str, str] = "gelu"
    norm: str = "layer"
    norm_affine: bool = True
    norm_eps: float = 1e-5
    norm_at: Literal["input", "both"] = "input"
    diffusion: float | int = 0.1
    ends: str = "reflecting"
    stabiliser: float | int = 1.0
    bias: bool = True
    positions: Literal["none", "sinusoidal", "learned", "rotary"] = "learned"
    rotary_base: float | int = 10000.0
    rotary_bias: float | int = 0.0
    max_positions: int = 1024
    dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    init: Literal["normal", "xavier"] = "normal"
    init_std: float = 0.02
    init_modes: int = 0
    matched: dict[str, Any] | None = None  # what a twin was matched to, and both costs

    def __post_init__(self, **kwargs: Any) -> None:
        if not suits(int, self.format) or self.format < 1:
            raise ValueError(f"format={self.format!r} is not a version of config.json: it must be {FORMAT}.")
        if self.format > FORMAT:
            raise ValueError(
                f"This config has format {self.format}, newer than {FORMAT}, the newest that this version of splitstep "
                "reads: install a newer splitstep (pip install -U splitstep)."
            )
        for usual in sorted(self.attribute_map.keys() & kwargs.keys()):
            self.take(usual, kwargs.pop(usual))
        self.check_entries(kwargs)
        if isinstance(self.scheme, (str, Scheme)):
            self.scheme = str(scheme(self.scheme))
        for name, kind in self.entries().items():
            read_as(kind, getattr(self, name), name)
        self.check_positive("layers", "substeps", most=DEEPEST)
        self.check_positive("width", "heads", "kv_heads", "head_size", "max_positions", most=LARGEST)
        self.check_positive("step", "norm_eps", "rotary_base", "diffusion", "stabiliser")
        if not 0 <= self.init_modes <= DEEPEST:
            raise ValueError(f"init_modes={self.init_modes} must be 0 or a positive number up to {DEEPEST:,}.")
        if not 0 <= self.init_std < inf:
            raise ValueError(f"init_std={self.init_std} must be 0 or a positive number.")
        super().__post_init__(**kwargs)
        check_choice("norm", self.norm, tuple(NORMS))
        self.check_fields()
        self.check_attention()
        self.check_probability("dropout", "attention_dropout", "activation_dropout")
        self.check_ffn()
        self.check_terms()

    def take(self, usual: str, value: Any) -> None:
        """Set an entry by its usual name, unless our name for it says something else."""
        own = self.attribute_map[usual]
        defaults = {one.name: one.default for one in fields(self)}
        if (here := getattr(self, own)) not in (value, defaults[own]):
            raise ValueError(f"{usual}={value!r} and {own}={here!r} are two names of one entry: give one of them.")
        setattr(self, usual, value)

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write config.json, and the file by which programs that have not imported splitstep find its classes."""
        if entry := auto_map.auto_map(type(self)):
            self.auto_map = entry
        super().save_pretrained(save_directory, push_to_hub, **kwargs)
        if entry:
            (Path(save_directory) / auto_map.FILE).write_text(auto_map.source(type(self)), encoding="utf-8")

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoConfig") -> None:
        """Do nothing: transformers asks for it before it copies the source of a class into a model's folder."""

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the model has learned positions for."""
        if self.positions == "learned" and length > self.max_positions:
            raise ValueError(
                f"{length} tokens are more than this model's max_positions={self.max_positions} learned positions: "
                "shorten the input or generate fewer tokens."
            )

    def check_positive(self, *names: str, most: float = inf) -> None:
        for name in names:
            if getattr(self, name) is not None:
                check_size(name, getattr(self, name), most)

    def check_probability(self, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} is a probability: use a number in [0, 1).")

    @classmethod
    def entries(cls) -> dict[str, Any]:
        """The entries that splitstep itself declares, each with its type."""
        ours = [get_annotations(c, eval_str=True) for c in cls.__mro__ if issubclass(c, SplitstepConfig)]
        return {name: kind for c in reversed(ours) for name, kind in c.items() if get_origin(kind) is not ClassVar}

    def check_entries(self, unknown: dict[str, Any]) -> None:
        """Refuse unknown entries. In a file only misspelt ones: it may hold what a newer transformers wrote."""
        ours = [f.name for f in fields(self)] + list(self.attribute_map)
        from_file = self.transformers_version is not None
        for key in unknown.keys() - THEIRS:
            near = nearest(key, ours, 0.8 if from_file else NEAR)
            if near or not (from_file or key.startswith("_")):
                hint = f"did you mean {near}?" if near else f"the entries are {', '.join(sorted(ours))}."
                raise ValueError(f"Unknown config entry {key}={unknown[key]!r}: {hint}")

    def check_fields(self) -> None:
        """Refuse a scheme with fields that models do not have, and activations that do not fit its fields."""
        for name in scheme(self.scheme).fields:
            letter = LETTERS.get(name[0])
            if letter is None or not letter.free:
                have = ", ".join(f"{key} ({one.title})" for key, one in LETTERS.items() if one.free)
                yet = f" ({letter.title}), which no model has yet" if letter and not letter.field else ""
                raise ValueError(
                    f"The scheme {self.scheme!r} needs a field {name}{yet or ', which this model does not have'}: it "
                    f"has {have} and the projections N, M, P; a decoder adds C (cross-attention) by itself."
                )
        halves = feed_forwards(scheme(self.scheme))
        if isinstance(self.activation, dict) and not names_fields(self.activation, halves):
            raise ValueError(
                f"activation={self.activation} must name each of the scheme's feed-forward fields: "
                f"{', '.join(halves) or 'none'}."
            )
        for choice in self.activation.values() if isinstance(self.activation, dict) else [self.activation]:
            check_choice("activation", choice, tuple(ACTIVATIONS))

    def check_attention(self) -> None:
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"Rotary positions need heads of an even width; got {self.head_width}.")
        if self.heads * self.head_width > LARGEST:
            raise ValueError(
                f"{self.heads} heads of head_size={self.head_width} are too wide together: use at most {LARGEST:,}."
            )
        if not isfinite(self.rotary_bias) or (self.rotary_bias and not (self.positions == "rotary" and self.bias)):
            raise ValueError(
                f"rotary_bias={self.rotary_bias} is the initial bias of rotary attention: use a finite number, with "
                "positions=rotary and bias=true."
            )

    def check_terms(self) -> None:
        """Refuse norms, ends and steps that do not fit the scheme."""
        used = {name[0] for name in scheme(self.scheme).fields}
        if self.norm_at == "both" and scheme(self.scheme).projections:
            raise ValueError(
                f"norm_at='both' puts norms inside of the fields, which those of {self.scheme!r} do not have: it is "
                "post-norm; use a scheme without N, M and P, or norm_at=input."
            )
        if "S" in used and self.norm == "none":
            raise ValueError(
                f"The stabiliser S of {self.scheme!r} pulls towards the norm of the state, and norm='none': use "
                "norm=layer or norm=rms, or a scheme without S."
            )
        check_choice("ends", self.ends, self.kinds_of_ends)
        self.check_diffusion()

    def check_diffusion(self) -> None:
        """Refuse explicit diffusion whose step is beyond the limit of its tableau."""
        for (s, _), ends in zip(self.stacks(), self.stencils(), strict=True):
            if wrong := beyond_limit(s, self.diffusion, self.step / self.substeps, ends, self.axes):
                raise ValueError(f"diffusion={self.diffusion}: {wrong}.")

    def stencils(self) -> list[str]:
        """For each stack, what diffusion does at the ends of a document."""
        return [self.ends]

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of an image's patches; None: tokens stand in a line."""
        return None

    def check_ffn(self) -> None:
        widths = self.ffn if isinstance(self.ffn, list) else [self.ffn]
        if isinstance(self.ffn, list) and len(widths) != self.ffn_fields:
            fields = counted(self.ffn_fields, "feed-forward field")
            raise ValueError(f"ffn lists {counted(len(widths), 'width')}; this network has {fields}.")
        for width in widths:
            check_size("ffn", width, LARGEST)

    @property
    def head_width(self) -> int:
        """The width of one head, checked."""
        return check_heads(self.width, self.heads, self.kv_heads, self.head_size)

    def ffn_rows(self) -> list[list[list[int]]]:
        """The widths of the feed-forward fields, by stack and layer."""
        given = iter(self.ffn) if isinstance(self.ffn, list) else repeat(self.ffn)
        return [[list(islice(given, len(feed_forwards(s)))) for _ in range(layers)] for s, layers in self.stacks()]

    @property
    def ffn_fields(self) -> int:
        """How many feed-forward fields the network has, over all layers."""
        return sum(layers * len(feed_forwards(s)) for s, layers in self.stacks())

    def stacks(self) -> list[tuple[Scheme, int]]:
        """The schemes that the network runs, each with its number of layers."""
        return [(scheme(self.scheme), self.layers)]

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """This config; for a decoder, a copy with as many layers as its cache has slots.

        Caches of transformers ask for it and have a slot for each layer. A scheme needs one for each evaluation.
        """
        if not decoder or encoder or self._sized_for_cache:  # `generate` asks for it, and the cache asks the answer
            return self
        last, layers = self.stacks()[-1]
        sized = copy(self)
        vars(sized)["_sized_for_cache"] = True
        sized.layers = max(1, *slots_of(last, layers * self.substeps)[1:])
        return sized


class TextConfig(SplitstepConfig):
    """What models of token sequences share. An `embedding_scale` of "sqrt" becomes the square root of the width."""

    vocab_size: int = 256
    embedding_scale: float | int | Literal["sqrt"] = 1.0
    embedding_norm: bool = False
    token_types: int = 0
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = True
    use_cache: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.embedding_scale == "sqrt":
            self.embedding_scale = self.width**0.5
        self.check_positive("vocab_size", most=LARGEST)
        if not 0 <= self.token_types <= LARGEST:
            raise ValueError(f"token_types={self.token_types} must be 0 or a positive number up to {LARGEST:,}.")
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id={self.pad_token_id} is not a token: vocab_size={self.vocab_size}.")
