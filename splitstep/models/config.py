"""Configurations: the shape of a network as Hugging Face keeps it, `config.json` and all; and kinds of models by name.

Programs that never imported splitstep open a saved model by `auto_map` in config.json and one small file. transformers
would copy the source of every class that is involved. It need not: the small file imports them from the package.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from transformers import AutoConfig, AutoModel, GenerationConfig, PreTrainedConfig

from ..options import converted
from ..shape import FORMAT, KINDS, Shape
from ..support.words import NEAR, nearest
from .cache import slots_of

THEIRS = frozenset(GenerationConfig().to_dict()) | {
    "attn_implementation", "auto_map", "experts_implementation", "name_or_path", "num_labels", "output_attentions",
    "per_layer_config", "quantization_config", "torch_dtype",
}  # fmt: skip  # entries that transformers accepts besides the fields of a config
CLASSES_FILE = Path("splitstep_models.py")

STUB = '''"""Where transformers finds the classes of this model: in the package splitstep (pip install splitstep)."""

{imports}

__all__ = {names}
'''


class OfThisPackage:
    """Configs and models whose source is not copied."""

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "") -> None:
        """Do nothing: transformers asks for it before it copies the source of a class into a model's folder."""


class SplitstepConfig(OfThisPackage, Shape, PreTrainedConfig):
    """The shape of a network, in a file that every program on transformers opens."""

    model_type: ClassVar[str] = "splitstep"
    _sized_for_cache: ClassVar[bool] = False
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

    def __post_init__(self, **kwargs: Any) -> None:
        self.check_format()
        for usual in sorted(self.attribute_map.keys() & kwargs.keys()):
            self.take(usual, kwargs.pop(usual))
        kwargs = converted({**kwargs, "letters": self.letters, "norm_at": self.norm_at})
        self.letters, self.norm_at, self.format = kwargs.pop("letters"), kwargs.pop("norm_at"), FORMAT
        self.check_entries(kwargs)
        self.check()
        PreTrainedConfig.__post_init__(self, **kwargs)

    def take(self, usual: str, value: Any) -> None:
        """Set an entry by its usual name, unless our name for it says something else."""
        own = self.attribute_map[usual]
        defaults = {one.name: one.default for one in fields(self)}
        if (here := getattr(self, own)) not in (value, defaults[own]):
            raise ValueError(f"{usual}={value!r} and {own}={here!r} are two names of one entry: give one of them.")
        setattr(self, usual, value)

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write config.json, and the file by which programs that have not imported splitstep find its classes."""
        write_classes(self, made_from(type(self)), save_directory)
        super().save_pretrained(save_directory, push_to_hub, **kwargs)

    def to_dict(self) -> dict[str, Any]:
        """The entries for JSON: the scheme as its canonical text."""
        return super().to_dict() | {"scheme": str(self.scheme)}

    def check_entries(self, unknown: dict[str, Any]) -> None:
        """Refuse unknown entries. In a file only misspelt ones: it may hold what a newer transformers wrote."""
        ours = [f.name for f in fields(self)] + list(self.attribute_map)
        from_file = self.transformers_version is not None
        for key in unknown.keys() - THEIRS:
            near = nearest(key, ours, 0.8 if from_file else NEAR)
            if near or not (from_file or key.startswith("_")):
                hint = f"did you mean {near}?" if near else f"the entries are {', '.join(sorted(ours))}."
                raise ValueError(f"Unknown config entry {key}={unknown[key]!r}: {hint}")

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """This config; for a decoder, a copy with as many layers as its cache has slots.

        Caches of transformers ask for it and have a slot for each layer. A scheme needs one for each evaluation.
        """
        if not decoder or encoder or self._sized_for_cache:  # `generate` asks for it, and the cache asks the answer
            return self
        last, layers = self.stacks()[-1]
        sized = copy(self)
        vars(sized)["_sized_for_cache"] = True
        sized.layers = max(slots_of(last, layers * self.substeps)[1:])
        return sized


class Kind(NamedTuple):
    """A config, its model, the Auto class of transformers that makes and loads such models, and the model without its
    head, which `AutoModel` makes; None if there is none."""

    config: type[SplitstepConfig]
    model: type[Any]
    auto: Any
    body: type[Any] | None = None

    def made_by(self) -> dict[Any, type]:
        """The Auto classes of transformers, and the class that each makes."""
        bodies = {} if self.body is None else {AutoModel: self.body}
        return {AutoConfig: self.config, self.auto: self.model, **bodies}


def kind(name: str, found: Kind) -> Kind:
    """A kind of models, registered with this package and with transformers."""
    AutoConfig.register(found.config.model_type, found.config)
    for auto, made in found.made_by().items():
        if auto is not AutoConfig:
            auto.register(found.config, made)
    return KINDS.add(name, found)


def kind_of(config: SplitstepConfig) -> Kind:
    """The kind of models that this config describes."""
    for one in chain(KINDS.own.values(), KINDS.values()):  # ours first: they need no import
        if one.config is type(config):
            return one
    names = ", ".join(one.config.__name__ for one in KINDS.values())
    raise ValueError(f"{type(config).__name__} does not belong to a model: use one of {names}.")


def made_from(config: type) -> dict[str, type]:
    """The Auto classes, by name, that make something of this config, and what; none if it belongs to no kind."""
    found = (kind.made_by() for kind in KINDS.known.values() if kind.config is config)
    return {auto.__name__: made for auto, made in next(found, {}).items()}


def write_classes(config: Any, made: Mapping[str, type], folder: Any) -> None:
    """Write the small file that names the classes of a model by Auto class, if there are any, and tell config.json."""
    if made:
        config.auto_map = {auto: f"{CLASSES_FILE.stem}.{one.__name__}" for auto, one in made.items()}
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / CLASSES_FILE).write_text(classes_source(made.values()), encoding="utf-8")


def classes_source(made: Iterable[type]) -> str:
    """The text of the small file."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in made:
        package = one.__module__.split(".")[0]
        found["splitstep" if package == "splitstep" else one.__module__].add(one.__name__)  # files may be renamed
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(found.items())]
    return STUB.format(imports="\n".join(lines), names=sorted(name for names in found.values() for name in names))
