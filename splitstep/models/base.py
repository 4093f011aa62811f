"""What all models share: construction, loading from safetensors, a cache that grows; and how weights start:
as the config says, each drawn for itself or as a smooth function of depth.

The latter is the same for every number of layers. At t = phase * T each matrix of a layer is

    W(t) = sum over k < K of (cos(pi k phase) G_k + sin(pi k phase) H_k) / sqrt(K)

with G_k and H_k drawn as usual. So W(t) has the variance of the usual initialisation at every t, and is a pure function
of the seed, the matrix's name and t. A layer has the weights of its middle.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import cos, pi, sin
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin, PreTrainedModel, initialization

from ..fields import Diffusion, draw_seed
from ..fields.attention import QueriesKeysValues, unplanned_attention
from ..fields.pointwise import DynamicTanh
from ..shape import Shape
from ..stack import Stack
from .body import Embedding, sinusoid_table
from .cache import SourceCache
from .config import OfThisPackage, SplitstepConfig
from .outputs import Look, PassOptions, check_arguments


def refuse_pickles(place: Any, subfolder: str) -> None:
    """An error that names the pickle, if a directory holds one and no safetensors."""
    folder = Path(place or "") / subfolder
    if place is None or not folder.is_dir() or any(folder.glob("*.safetensors")):
        return
    if pickles := sorted(p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl")):
        raise ValueError(
            f"{folder} holds {pickles[0]} and no model.safetensors. That file is a pickle, which can run code when it "
            "is read, so splitstep does not open it: save the model with save_pretrained, which writes safetensors."
        )


def refuse_mismatch(place: Any, info: dict[str, Any], resize: bool, own: bool) -> None:
    """An error that names the first weight in which config and checkpoint differ."""
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


FOUR_BITS = getattr(torch, "float4_e2m1fn_x2", None)  # two numbers in a byte, always finite; older PyTorch lacks it


def refuse_not_finite(weights: Mapping[str, Tensor], place: Any) -> None:
    """An error that names the first weight with a number that is none."""
    for name, x in weights.items():
        if x.is_floating_point() and x.dtype != FOUR_BITS and x.numel() and not x.is_meta:
            known = x.detach() if x.element_size() > 1 else x.detach().float()  # 8 bits have no minimum in PyTorch
            ends = torch.stack(known.aminmax()).float()
            if not ends.isfinite().all():
                what = "is not a number" if ends.isnan().any() else "is infinite"
                raise ValueError(
                    f"{place}: the weight {name} has a value that {what}: take an earlier checkpoint, or copy it again"
                )


class Headless(nn.Module):
    """A model without its head, as `base_model` of transformers: it owns nothing and calls what it is made of."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = forward


CHECKS: list[Callable[[Any], None]] = []  # of the config of a model before it is built; contract.py adds one


class SplitstepModel(OfThisPackage, PreTrainedModel):
    """What all models share: construction and loading. `input_at` is the table or matrix that reads the input: Hugging
    Face finds and replaces it there."""

    config: Any
    config_class = SplitstepConfig
    base_model_prefix = "body"
    input_at: ClassVar[str]
    _supports_sdpa = True
    _supports_attention_backend = False
    supports_gradient_checkpointing = True
    _can_compile_fullgraph = True
    per_token: ClassVar[tuple[str, ...]] = ()  # matrices around the stacks that multiply every token
    per_example: ClassVar[tuple[str, ...]] = ()  # those that multiply one vector of each example

    def __init__(self, config: Any) -> None:
        for check in CHECKS:
            check(config)
        super().__init__(config)
        self.build(config)
        self.post_init()

    def build(self, config: Any) -> None:
        """Make the parts of the model, in the order in which their weights are drawn."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """The saved model, from safetensors only: a pickle can run code when it is read, so none is opened.

        Missing, unknown or misshapen weights are an error if the checkpoint is one of this class; another model's
        checkpoint may hold only a part of the weights.
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
        refuse_not_finite(model.state_dict(), place)
        return (model, info) if informed else model

    def look(self, options: PassOptions, packed: bool = False) -> Look:
        """What this pass is to show; arguments that `forward` does not know are refused."""
        check_arguments(self, options, packed)
        return Look(self.config, options)

    def seed(self, look: Look, device: torch.device) -> Tensor | None:
        """The dropout seed of this pass: None outside training or without dropout."""
        rates = (self.config.dropout, self.config.attention_dropout, self.config.activation_dropout)
        if not self.training or not any(rates):
            return None
        seed = draw_seed(device) if look.seed is None else look.seed
        return seed.to(torch.int32)  # here, not in every dropout

    def bare(self, *inputs: Any, **named: Any) -> Any:
        """The states, as the model without a head returns them."""
        raise NotImplementedError

    @property
    def base_model(self) -> nn.Module:
        """The model without its head: trainers call it to work out logits by themselves."""
        return Headless(self.bare)

    def get_input_embeddings(self) -> nn.Module:
        return self.get_submodule(self.input_at)

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.set_submodule(self.input_at, value)

    def post_init(self) -> None:
        """As in transformers; then, if the config asks for it, weights that are smooth in depth."""
        super().post_init()
        if self.config.init_modes and self.device.type != "meta":
            start_smoothly(self, self.config.init_modes, self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        draw(module, self.config)


class SplitstepGenerationMixin(GenerationMixin):
    """What models that `generate` share: a cache that grows, and attention without plans for each length."""

    config: Any

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """As in transformers."""
        with unplanned_attention():
            return super().generate(*args, **kwargs)  # pyright: ignore[reportAttributeAccessIssue]

    def _prepare_cache_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, generation_config: Any, model_kwargs: dict[str, Any], *rest: Any
    ) -> Any:
        """Start with an empty cache: a scheme needs a slot for each evaluation, not one for each layer."""
        lazy = generation_config.use_cache is not False and generation_config.cache_implementation is None
        if not lazy or model_kwargs.get("past_key_values") is not None:
            return super()._prepare_cache_for_generation(generation_config, model_kwargs, *rest)  # pyright: ignore
        cache = DynamicCache()
        encdec = self.config.is_encoder_decoder
        model_kwargs["past_key_values"] = EncoderDecoderCache(cache, SourceCache()) if encdec else cache
        return None


class VocabularyHead:
    """What models with a `head` onto the vocabulary share: Hugging Face finds and replaces it here."""

    per_token = ("head",)
    head: nn.Module

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.head = new_embeddings


def all_stacks(model: SplitstepModel) -> Iterator[Stack]:
    """The stacks of a model, in order."""
    yield from (module for module in model.modules() if isinstance(module, Stack))


@torch.no_grad()
def draw(module: nn.Module, config: Shape) -> None:
    """Set a module's weights to what the config starts them with."""
    if isinstance(module, nn.Linear):
        draw_matrix(module, config)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=config.width**-0.5 if config.init == "xavier" else config.init_std)
        if module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
    elif isinstance(module, (nn.LayerNorm, nn.RMSNorm, DynamicTanh)):
        module.reset_parameters()
    elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
        module.reset_parameters()
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, Diffusion):
        nn.init.constant_(module.a, module.start)
    elif isinstance(module, Embedding) and module.sinusoids is not None:  # files do not hold them
        module.sinusoids.copy_(sinusoid_table(module.config))


def draw_matrix(layer: nn.Linear, config: Shape) -> None:
    """Draw a matrix as the config says; biases start at 0, those of queries and keys where their field says."""
    if config.init == "xavier":
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=config.init_std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
        if isinstance(layer, QueriesKeysValues) and layer.start:
            starts = torch.tensor((layer.start, layer.start, 0.0))
            initialization.copy_(layer.bias, starts.repeat_interleave(torch.tensor(layer.sizes)))


Draw = Callable[[nn.Module], None]  # draws the weights of a module, as the config says


@torch.no_grad()
def start_smoothly(model: nn.Module, modes: int, draw: Draw) -> None:
    """Draw all weights again: those of layers as functions of depth, the others by name, so that networks of all
    depths share them."""
    seed = torch.initial_seed()
    stacks = {f"{name}.layers.": one for name, one in model.named_modules() if isinstance(one, Stack)}
    seen: set[int] = set()  # a tied weight is drawn once
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if any(name.startswith(path) for path in stacks) or not isinstance(weight, nn.Parameter) or id(weight) in seen:
            continue
        seen.add(id(weight))
        with drawn_from(seed, name):
            draw(module)
    for path, stack in stacks.items():
        for i, layer in enumerate(stack.layers):
            for name, module in layer.named_modules():
                if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)):
                    check_shape(stack, name, module)
                    sample(module, (i + 0.5) / len(stack.layers), modes, draw, f"{seed} {path}{name}")


def check_shape(stack: Stack, name: str, module: nn.Module) -> None:
    first: Any = stack.layers[0].get_submodule(name)
    if first.weight.shape != module.weight.shape:
        raise ValueError("init_modes draws all layers from one function of depth: give all layers the same ffn.")


def sample(module: Any, phase: float, modes: int, draw: Draw, name: str) -> None:
    """Set a matrix to the value of its random function at t = phase * T."""
    total = torch.zeros_like(module.weight)
    for k in range(modes):
        for wave, factor in (("cos", cos(pi * k * phase)), ("sin", sin(pi * k * phase))):
            with drawn_from(name, k, wave):
                draw(module)
            total += factor * modes**-0.5 * module.weight
    module.weight.copy_(total)


@contextmanager
def drawn_from(*words: object) -> Iterator[None]:
    """Random numbers from a seed that these words give."""
    number = int.from_bytes(hashlib.sha256(" ".join(map(str, words)).encode()).digest()[:7], "big")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        yield
