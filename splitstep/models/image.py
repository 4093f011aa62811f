"""The classifier of images."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from transformers import AutoModelForImageClassification
from transformers.modeling_outputs import BaseModelOutput, ImageClassifierOutput

from ..fields import Context
from ..integrate import Observe
from ..shape import ImageShape
from .arguments import answer, check_arguments
from .base import SplitstepModel
from .body import Body, rotary_angles, seed_for, sinusoids
from .classes import class_loss
from .config import SplitstepConfig
from .kinds import kind
from .watch import Watch


class ImageConfig(ImageShape, SplitstepConfig):
    """A classifier of images cut into square patches."""

    model_type: ClassVar[str] = "splitstep-image"
    attribute_map: ClassVar[dict[str, str]] = {
        **SplitstepConfig.attribute_map,
        "num_channels": "channels",
        "patch_size": "patch",
    }


def grey(pixels: Tensor) -> Tensor:
    """The brightness of colours (ITU-R 601), [B, 3, H, W] -> [B, 1, H, W]: pipelines open grey images in colour."""
    red, green, blue = pixels.split(1, 1)
    return green + 0.299 * (red - green) + 0.114 * (blue - green)  # equal channels come back bit for bit


class ImageModel(SplitstepModel):
    """What models of images share: linear patches, positions, stack."""

    config_class = ImageConfig
    main_input_name = "pixel_values"
    per_token = ("patches",)
    patches: nn.Linear
    positions: nn.Embedding | None
    body: Body

    def build(self, config: ImageConfig) -> None:
        self.patches = nn.Linear(config.channels * config.patch**2, config.width)
        self.positions = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        self.body = Body(config)

    def get_input_embeddings(self) -> nn.Module:
        return self.patches

    def cut(self, pixels: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, patches, C * patch * patch]."""
        p, side = self.config.patch, self.config.image_size // self.config.patch
        blocks = pixels.unflatten(3, (side, p)).unflatten(2, (side, p))
        return blocks.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def read(self, watch: Watch, pixels: Tensor, dropout_seed: Tensor | None) -> Tensor:
        """The states of the patches of images."""
        expected = (self.config.channels, self.config.image_size, self.config.image_size)
        if self.config.channels == 1 and pixels.shape[1] == 3:
            pixels = grey(pixels)
        if pixels.shape[1:] != expected:
            raise ValueError(f"pixel_values have shape {tuple(pixels.shape)}: this model takes [batch, {expected}].")
        seed = seed_for(self, self.config, dropout_seed, pixels.device)
        x = self.patches(self.cut(pixels)).to(self.patches.weight.dtype)  # autocast would narrow the stream
        positions = torch.arange(x.shape[1], device=x.device)[None]
        if self.positions is not None:
            x = x + self.positions(positions)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(positions, self.config.width).to(x.dtype)
        angles = rotary_angles(self.config, positions, self.patches.weight)
        return self.body(x, Context(rotary=angles, seed=seed, record=watch.record), watch.observe)

    def bare(
        self,
        pixel_values: Tensor,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> BaseModelOutput:
        """The states, as the model without a head returns them."""
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, pixel_values, dropout_seed)
        return answer(self.config, return_dict, BaseModelOutput(x, watch.states(x), watch.attentions()))  # pyright: ignore


class SplitstepForImageClassification(ImageModel):
    """A classifier of images: linear patches, learned positions, stack, mean, head."""

    per_example = ("head",)

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]
        self.post_init()

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> ImageClassifierOutput:
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, pixel_values, dropout_seed)
        logits = self.head(x.mean(1))
        loss = None if labels is None else class_loss(self.config, logits, labels, num_items_in_batch)
        out = ImageClassifierOutput(loss, logits, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


@final
class SplitstepImageModel(ImageModel):
    """A classifier of images without its head: a state for each patch."""

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        self.build(config)
        self.post_init()

    forward = ImageModel.bare


IMAGE = kind(
    "image", ImageConfig, SplitstepForImageClassification, AutoModelForImageClassification, SplitstepImageModel
)
