"""Models that read numbers instead of tokens: a map of sequences of vectors, and a classifier of images."""

from typing import Any, ClassVar, Unpack, final

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForImageClassification
from transformers.modeling_outputs import BaseModelOutput, ImageClassifierOutput, TokenClassifierOutput

from ..fields import Context
from ..shape import ImageShape, VectorsShape
from .base import SplitstepModel
from .body import Body, rotary_angles, sinusoids
from .config import Kind, SplitstepConfig, kind
from .inputs import documents_of, padding_barrier
from .outputs import Look, PassOptions, class_loss, mean_square


class NumbersModel(SplitstepModel):
    """What models of numbers share: a matrix, positions and a stack."""

    def build_on(self, numbers: int, config: Any) -> None:
        """Make what reads so many numbers of each token."""
        self.add_module(self.input_at, nn.Linear(numbers, config.width))
        self.positions = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        self.body = Body(config)
        self.reads_documents = config.reads_documents

    def read(self, look: Look, numbers: Tensor, mask: Tensor | None = None) -> Tensor:
        """The states of tokens that are numbers, [B, T, n]."""
        matrix: Any = self.get_input_embeddings()
        weight = matrix.weight
        x = matrix(numbers.to(weight.dtype)).to(weight.dtype)  # autocast would narrow the stream
        positions = torch.arange(x.shape[1], device=x.device)[None]
        if self.positions is not None:
            x = x + self.positions(positions)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(positions, self.config.width).to(x.dtype)
        context = Context(
            mask=padding_barrier(mask, weight),
            rotary=rotary_angles(self.config, positions, weight),
            seed=self.seed(look, x.device),
            documents=documents_of(mask, False) if self.reads_documents else None,
        )
        return self.body.shown(x, context, look)


class VectorsConfig(VectorsShape, SplitstepConfig):
    """A map of sequences of vectors."""

    model_type: ClassVar[str] = "splitstep-vectors"


@final
class SplitstepVectorsModel(NumbersModel):
    """A map of sequences of vectors: linear embedding, positions, stack, linear read-out. The loss is the mean square.

    `values` [B, T, inputs] are real numbers; `logits` [B, T, outputs] is what transformers calls the output.
    """

    config_class = VectorsConfig
    main_input_name = "values"
    input_at = "embedding"
    per_token = ("embedding", "head")

    def build(self, config: VectorsConfig) -> None:
        self.build_on(config.inputs, config)
        self.head = nn.Linear(config.width, config.outputs)

    def read(self, look: Look, numbers: Tensor, mask: Tensor | None = None) -> Tensor:
        if numbers.ndim != 3 or numbers.shape[2] != self.config.inputs:
            raise ValueError(
                f"values have shape {list(numbers.shape)}: this model takes [batch, tokens, {self.config.inputs}]."
            )
        self.config.check_length(numbers.shape[1])
        return super().read(look, numbers, mask)

    def bare(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, values: Tensor, attention_mask: Tensor | None = None, **options: Unpack[PassOptions]
    ) -> BaseModelOutput:
        """The states, before the read-out."""
        look = self.look(options)
        x = self.read(look, values, attention_mask)
        return look.answer(BaseModelOutput(x, *look.seen(x)))  # pyright: ignore[reportArgumentType]

    def forward(
        self,
        values: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[PassOptions],
    ) -> TokenClassifierOutput:
        look = self.look(options)
        x = self.read(look, values, attention_mask)
        y = self.head(x)
        loss = None if labels is None else mean_square(y, labels, attention_mask, num_items_in_batch)
        return look.answer(TokenClassifierOutput(loss, y, *look.seen(x)))  # pyright: ignore[reportArgumentType]


class ImageConfig(ImageShape, SplitstepConfig):
    """A classifier of images cut into square patches."""

    model_type: ClassVar[str] = "splitstep-image"
    attribute_map: ClassVar[dict[str, str]] = {
        **SplitstepConfig.attribute_map, "num_channels": "channels", "patch_size": "patch",
    }  # fmt: skip


def grey(pixels: Tensor) -> Tensor:
    """The brightness of colours (ITU-R 601), [B, 3, H, W] -> [B, 1, H, W]: pipelines open grey images in colour."""
    red, green, blue = pixels.split(1, 1)
    return green + 0.299 * (red - green) + 0.114 * (blue - green)  # equal channels come back bit for bit


class ImageModel(NumbersModel):
    """What models of images share: patches of pixels are their tokens."""

    config_class = ImageConfig
    main_input_name = "pixel_values"
    input_at = "patches"
    per_token = ("patches",)

    def build(self, config: ImageConfig) -> None:
        self.build_on(config.channels * config.patch**2, config)

    def cut(self, pixels: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, patches, C * patch * patch]."""
        p, side = self.config.patch, self.config.image_size // self.config.patch
        blocks = pixels.unflatten(3, (side, p)).unflatten(2, (side, p))
        return blocks.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def read(self, look: Look, numbers: Tensor, mask: Tensor | None = None) -> Tensor:
        expected = (self.config.channels, self.config.image_size, self.config.image_size)
        if self.config.channels == 1 and numbers.shape[1] == 3:
            numbers = grey(numbers)
        if numbers.shape[1:] != expected:
            raise ValueError(f"pixel_values have shape {tuple(numbers.shape)}: this model takes [batch, {expected}].")
        return super().read(look, self.cut(numbers))

    def bare(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, pixel_values: Tensor, **options: Unpack[PassOptions]
    ) -> BaseModelOutput:
        """The states, as the model without a head returns them."""
        look = self.look(options)
        x = self.read(look, pixel_values)
        return look.answer(BaseModelOutput(x, *look.seen(x)))  # pyright: ignore[reportArgumentType]


class SplitstepForImageClassification(ImageModel):
    """A classifier of images: linear patches, learned positions, stack, mean, head."""

    per_example = ("head",)

    def build(self, config: ImageConfig) -> None:
        super().build(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **options: Unpack[PassOptions],
    ) -> ImageClassifierOutput:
        look = self.look(options)
        x = self.read(look, pixel_values)
        logits = self.head(x.mean(1))
        loss = None if labels is None else class_loss(self.config, logits, labels, num_items_in_batch)
        return look.answer(ImageClassifierOutput(loss, logits, *look.seen(x)))  # pyright: ignore[reportArgumentType]


@final
class SplitstepImageModel(ImageModel):
    """A classifier of images without its head: a state for each patch."""

    forward = ImageModel.bare


VECTORS = kind("vectors", Kind(VectorsConfig, SplitstepVectorsModel, AutoModel))
AUTO = AutoModelForImageClassification
IMAGE = kind("image", Kind(ImageConfig, SplitstepForImageClassification, AUTO, SplitstepImageModel))
