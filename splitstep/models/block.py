"""A causal language model around somebody else's layers: `block(width, heads, layer)` makes each of them.

Around the layers stand an embedding with positions, a final norm and a head, as in our own models. A layer maps states
[B, T, width] to new ones and initialises itself. Its source is kept in config.json. Reading that file runs no code: a
source runs only after `trust` was called with it, which the caller does who was given the file.
"""

import linecache
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from inspect import signature
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from ..fields import draw_seed
from ..shape import CausalShape
from ..sources import BlockSource
from ..support.files import cache_root
from ..support.words import first_line
from .base import draw, refuse_mismatch, refuse_pickles
from .body import Embedding, norm_of
from .causal import kept
from .config import OfThisPackage, write_classes
from .inputs import Text
from .outputs import read_tokens

Block = Callable[..., Any]
AUTO = "AutoModelForCausalLM"  # which makes and loads such models
TRUSTED: set[str] = set()  # hashes of the sources that may run in this process


class Untrusted(ValueError):
    """A source that nobody has said may run."""


def mark_of(source: BlockSource) -> Path:
    """The file in the cache that says that a source may run on this machine."""
    return cache_root() / "trusted" / source.sha256


def trust(source: BlockSource) -> BlockSource:
    """Let the source run, here and in later processes on this machine."""
    TRUSTED.add(source.sha256)
    with suppress(OSError):
        mark_of(source).parent.mkdir(parents=True, exist_ok=True)
        mark_of(source).touch()
    return source


@cache
def block_of(source: BlockSource) -> Block:
    """The function that the source defines."""
    if source.sha256 not in TRUSTED and not mark_of(source).is_file():
        raise Untrusted(
            f"{source.file} comes with Python code of its own: read that code, and if you trust it, add "
            "--trust-remote-code, or in Python trust_remote_code=True"
        )
    file = source.file.rpartition(":")[0]
    module = ModuleType(f"splitstep_block_{source.sha256[:12]}")
    path = f"<{file} {source.sha256[:12]}>"
    linecache.cache[path] = len(source.text), None, source.text.splitlines(True), path  # so errors show its lines
    sys.modules[module.__name__] = module  # dataclasses look there
    try:
        exec(compile(source.text, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise ValueError(f"{file} does not run ({type(error).__name__}: {first_line(error)}): repair it") from None
    found = getattr(module, source.function, None)
    if not callable(found):
        raise ValueError(f"{source.file} is not a function: define {source.function}(width, heads, layer)")
    return found


def takes_ffn(block: Block) -> bool:
    """Whether a block is told the width of feed-forward networks."""
    return "ffn" in signature(block).parameters


def layer_of(source: BlockSource, shape: CausalShape, number: int) -> nn.Module:
    """Layer `number` as the block makes it."""
    block = block_of(source)
    more = {"ffn": shape.ffn} if takes_ffn(block) else {}
    try:
        made = block(shape.width, shape.heads, number, **more)
    except Exception as error:
        given = f"{shape.width}, {shape.heads}, {number}" + "".join(f", ffn={ffn}" for ffn in more.values())
        what = f"{type(error).__name__}: {first_line(error)}"
        raise ValueError(f"{source.file}: {source.function}({given}) fails ({what}): repair it") from None
    if not isinstance(made, nn.Module):
        raise ValueError(f"{source.file} returns a {type(made).__name__}: return a torch.nn.Module")
    return made


class BlockConfig(OfThisPackage, PreTrainedConfig):
    """A block's source, and the shape of the network around it with the entries of a causal model."""

    model_type: ClassVar[str] = "splitstep-block"
    block: dict[str, str] | None = None
    shape: dict[str, Any] | None = None
    tie_word_embeddings: bool = True
    use_cache: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.tie_word_embeddings = self.around.tie_word_embeddings

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write config.json, and the file by which programs that have not imported splitstep find its classes."""
        write_classes(self, {"AutoConfig": BlockConfig, AUTO: SplitstepBlockForCausalLM}, save_directory)
        super().save_pretrained(save_directory, push_to_hub, **kwargs)

    @property
    def source(self) -> BlockSource:
        return BlockSource(**(self.block or {"file": "block.py:block", "text": ""}))

    @property
    def around(self) -> CausalShape:
        """The shape of the network around the block."""
        return CausalShape(**(self.shape or {}))

    vocab_size = property(attrgetter("around.vocab_size"))
    hidden_size = property(attrgetter("around.width"))
    num_hidden_layers = property(attrgetter("around.layers"))
    num_attention_heads = property(attrgetter("around.heads"))
    max_position_embeddings = property(attrgetter("around.max_positions"))


def shape_around(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a causal model as the network around a block has them: learned positions instead of rotary ones,
    which are inside of attention."""
    found = {name: value for name, value in entries.items() if name not in ("scheme", "rotary_base", "letters")}
    if found.get("positions") == "rotary":
        found["positions"] = "learned"
    if isinstance(found.get("ffn"), list):
        raise ValueError(f"model.ffn is {found['ffn']}, and a block takes one width: type one number")
    return found


class SplitstepBlockForCausalLM(OfThisPackage, PreTrainedModel, GenerationMixin):
    """A causal language model whose layers a block makes."""

    config: BlockConfig
    config_class = BlockConfig
    base_model_prefix = ""
    _tied_weights_keys = {"head.weight": "embedding.tokens.weight"}  # noqa: RUF012
    _supports_sdpa = True

    def __init__(self, config: BlockConfig) -> None:
        super().__init__(config)
        shape, source = config.around, config.source
        self.embedding = Embedding(shape)
        self.layers = nn.ModuleList(layer_of(source, shape, number) for number in range(shape.layers))
        self.norm = norm_of(shape, True)
        self.head = nn.Linear(shape.width, shape.vocab_size, bias=False)
        for module in self.layers.modules():
            vars(module)["_is_hf_initialized"] = True  # it has initialised itself
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        draw(module, self.config.around)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding.tokens

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def states(self, ids: Tensor | None, mask: Tensor | None = None, embeds: Tensor | None = None) -> Tensor:
        """The states after the last layer and the final norm."""
        text = Text(ids, mask, embeds=embeds)
        drops = self.training and self.config.around.dropout
        x, _ = self.embedding(text, draw_seed(text.given().device) if drops else None, 0)
        for layer in self.layers:
            x = self.checked(layer(x), x)
        return self.norm(x)

    def checked(self, new: Any, x: Tensor) -> Tensor:
        """What a layer returns, unless it is nothing like the states that it was given."""
        if isinstance(new, Tensor) and new.shape == x.shape:
            return new
        found = list(new.shape) if isinstance(new, Tensor) else f"a {type(new).__name__}"
        raise ValueError(
            f"{self.config.source.file}: a layer returns {found} for states {list(x.shape)}: return new states of the "
            "same shape"
        )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Tensor | int | None = None,
        use_cache: bool | None = None,
        **options: Any,
    ) -> CausalLMOutput:
        """Logits and, with labels, the loss. Layers see no mask, so padding has to stand on the right."""
        x = kept(self.states(input_ids, attention_mask, inputs_embeds), logits_to_keep)
        logits, loss = read_tokens(self.head, x, labels, num_items_in_batch, ahead=True)
        return CausalLMOutput(loss, logits)  # pyright: ignore[reportArgumentType]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """The saved model. Its layers are made as in training and not on the meta device, on which transformers would
        lose the buffers that they do not save."""
        place = Path(pretrained_model_name_or_path)
        refuse_pickles(place, "")
        config = kwargs.get("config") or BlockConfig.from_pretrained(place)
        if kwargs.get("trust_remote_code"):
            trust(config.source)
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            model = cls(config)
        weights = {name: x for file in sorted(place.glob("*.safetensors")) for name, x in load_file(file).items()}
        info = loading_info(model, weights)
        refuse_mismatch(place, info, False, True)
        model.load_state_dict(weights, strict=False)
        model.tie_weights()
        model.eval()
        return (model, info) if kwargs.get("output_loading_info") else model


def loading_info(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """What transformers says of a checkpoint: names that are missing or unknown, and weights of another shape."""
    own = model.state_dict()
    tied = set(getattr(model, "all_tied_weights_keys", ()))
    differ = [(name, x.shape, own[name].shape) for name, x in weights.items() if name in own]
    return {
        "missing_keys": own.keys() - weights.keys() - tied,
        "unexpected_keys": weights.keys() - own.keys(),
        "mismatched_keys": [one for one in differ if one[1] != one[2]],
    }


AutoConfig.register(BlockConfig.model_type, BlockConfig)
AutoModelForCausalLM.register(BlockConfig, SplitstepBlockForCausalLM)
