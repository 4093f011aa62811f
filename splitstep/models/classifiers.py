"""The classifiers: of token sequences, of images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import ImageClassifierOutput, SequenceClassifierOutput

from ..fields import Context
from ..integrate import Observe
from ..kernels.loss import cross_entropy
from ..kernels.output_product import project
from .base import SplitstepModel
from .body import Embedding, seed_for, single_body, sinusoids, states_of, turn
from .config import ImageConfig, SequenceConfig
from .encoder import Encoder, EncoderModel


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
