"""Configs of causal models of transformers, as arms of a comparison: fitted to the task and to the recipe's size."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

from ..flows.layers import CAUSAL
from ..models import SplitstepConfig
from ..shape import CausalShape
from ..sources import ConfigSource
from ..support.auto_classes import silent
from ..support.words import first_line

FFN = ("ffn", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")  # the width of feed-forward networks
EXPERTS = ("moe_intermediate_size", "shared_expert_intermediate_size")  # that of experts, which is not fitted
SAME_AS_WIDTH = ("word_embed_proj_dim", "embedding_size")  # entries that are as wide as the states, if they were before
LEFT_OUT = ("architectures", "auto_map", "dtype", "torch_dtype", "quantization_config", "transformers_version",
            "_name_or_path", "id2label", "label2id")  # fmt: skip  # of a document: they say nothing of the network
TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id")


class Adapted(NamedTuple):
    """A config that fits a task; what was changed for that, entry by entry (before, after); and its dropouts."""

    config: PreTrainedConfig
    changed: dict[str, tuple[Any, Any]]
    dropouts: dict[str, float]


def adapted(source: ConfigSource, shape: CausalShape) -> Adapted:
    """The config with the vocabulary, length and tying of this shape, without special tokens and, unless its size is
    kept, with the width, depth and heads of the shape."""
    before = read_config_class(source)
    entries = before.to_dict() | dict.fromkeys(TOKENS)
    names = Names(before, entries)
    names.set("vocab_size", shape.vocab_size)
    names.set("max_position_embeddings", shape.max_positions)
    entries["tie_word_embeddings"] = shape.tie_word_embeddings
    if not source.kept:
        resize(names, entries, shape)
    for key in LEFT_OUT:
        entries.pop(key, None)
    if source.ffn is not None and (key := width_entry(before)) is not None:
        entries[key] = source.ffn
    after = checked(source, entries, type(before))
    old, new = ({key: value for key, value in one.to_dict().items() if key not in LEFT_OUT} for one in (before, after))
    changed = {key: (old.get(key), new[key]) for key in new if new[key] != old.get(key)}
    dropouts = {key: value for key, value in new.items() if "drop" in key and isinstance(value, float) and value}
    return Adapted(after, changed, dropouts)


def read_config_class(source: ConfigSource) -> PreTrainedConfig:
    """The config as transformers reads it; refused unless it is that of a causal model which is installed."""
    kind, document = source.document["model_type"], source.document
    if kind not in CONFIG_MAPPING:
        raise ValueError(
            f"{source.file} is the config of a {kind} model, a type that the installed transformers does not know: try "
            "a newer one (pip install -U transformers)"
        )
    known = CONFIG_MAPPING[kind]
    if issubclass(known, SplitstepConfig):
        raise ValueError(f"{source.file} is a config of splitstep: type its scheme {document.get('scheme')!r} instead")
    config = checked(source, {key: value for key, value in document.items() if key not in LEFT_OUT}, known)
    named = (document.get("architectures") or [""])[0]
    looks_both_ways = known in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    encoder = config.is_encoder_decoder or looks_both_ways or known not in MODEL_FOR_CAUSAL_LM_MAPPING
    if encoder or (named and not str(named).endswith(CAUSAL)):
        raise ValueError(
            f"{source.file} is the config of a {named or kind}, which does not predict the next token: name that of a "
            "causal model, such as a ...ForCausalLM"
        )
    return config


def checked(source: ConfigSource, entries: Mapping[str, Any], known: type[PreTrainedConfig]) -> PreTrainedConfig:
    """The config of these entries, or one line about what its class does not accept."""
    with silent():
        try:
            return known.from_dict({**entries, "dtype": "float32"})
        except Exception as error:  # classes check themselves in many ways
            raise ValueError(
                f"{source.file} does not fit the recipe ({first_line(error)}): type {source.file}:as-is, or change its "
                "entries"
            ) from None


class Names(NamedTuple):
    """The entries of a config under the names that all configs of transformers share."""

    config: PreTrainedConfig
    entries: dict[str, Any]

    def own(self, usual: str) -> str:
        """What the config itself calls an entry."""
        return self.config.attribute_map.get(usual, usual)

    def get(self, usual: str) -> Any:
        return self.entries.get(self.own(usual))

    def set(self, usual: str, value: Any) -> None:
        """Set an entry, if the config has it."""
        if self.own(usual) in self.entries:
            self.entries[self.own(usual)] = value


def resize(names: Names, entries: dict[str, Any], shape: CausalShape) -> None:
    """Set width, depth and heads, and what follows from them."""
    width, layers, heads = (names.get(key) for key in ("hidden_size", "num_hidden_layers", "num_attention_heads"))
    shared = names.get("num_key_value_heads")
    names.set("hidden_size", shape.width)
    names.set("num_hidden_layers", shape.layers)
    names.set("num_attention_heads", shape.heads)
    if "qk_rope_head_dim" not in entries:  # whose heads have sizes of their own
        names.set("head_dim", shape.head_width)
    if heads and shared:
        share, some = shared / heads, [n for n in range(1, shape.heads + 1) if shape.heads % n == 0]
        names.set("num_key_value_heads", min(some, key=lambda n: (abs(n / shape.heads - share), n)))  # the nearest
    if entries.get("rotary_dim"):
        entries["rotary_dim"] = min(entries["rotary_dim"], shape.head_width)
    for key in SAME_AS_WIDTH:
        if entries.get(key) == width:
            entries[key] = shape.width
    for key in (*FFN, *EXPERTS):
        if isinstance(entries.get(key), int) and width:
            entries[key] = max(1, round(entries[key] * shape.width / width))
    for key, value in entries.items():
        if isinstance(value, list) and len(value) == layers:  # one value a layer: the pattern goes on
            entries[key] = [value[number % layers] for number in range(shape.layers)]


def width_entry(config: PreTrainedConfig) -> str | None:
    """The entry that holds the width of feed-forward networks; None if the config has none."""
    return next((key for key in FFN if key in config.to_dict()), None)
