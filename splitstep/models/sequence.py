"""The classifier of token sequences."""

from __future__ import annotations

from typing import ClassVar, Literal, final

from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from ..kernels.output_product import project
from .classes import class_loss
from .config import TextConfig
from .encoder import Encoder, EncoderHead, EncoderStates
from .kinds import KINDS, kind


class SequenceConfig(TextConfig):
    """A classifier of token sequences; `pool` is what the head reads: the "mean" over tokens or the "first" one.
    `head_start`: the head's first weights are "drawn" like all others, or "zero", so all classes begin equal."""

    model_type: ClassVar[str] = "splitstep-sequence"

    pool: Literal["mean", "first"] = "mean"
    head_start: Literal["drawn", "zero"] = "drawn"


class SplitstepForSequenceClassification(EncoderHead):
    """A classifier of token sequences."""

    config_class = SequenceConfig
    Output = SequenceClassifierOutput
    per_token, per_example = (), ("head",)

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is self.head and self.config.head_start == "zero":
            nn.init.zeros_(self.head.weight)

    def read_out(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return project(self.head, pooled(x, mask, self.config.pool))

    def loss_of(self, logits: Tensor, labels: Tensor, items: Tensor | int | None, wide: Tensor) -> Tensor:
        return class_loss(self.config, logits, labels, items, wide)


def pooled(x: Tensor, mask: Tensor | None, pool: str) -> Tensor:
    """One vector per sequence: the first token's, or the mean over tokens that are not padding."""
    if pool == "first":
        return x[:, 0]
    if mask is None:
        return x.mean(1)
    if mask.ndim != 2:
        raise ValueError(
            f"A mean over tokens needs to know the padding: pass an attention_mask [batch, tokens], not one of shape "
            f"{list(mask.shape)}, or use pool=first."
        )
    weight = mask.to(x.dtype)[..., None]
    return (x * weight).sum(1) / weight.sum(1).clamp(min=1)


@final
class SplitstepSequenceModel(EncoderStates):
    """A classifier of token sequences without its head."""

    config_class = SequenceConfig


KINDS.add(
    "sequence",
    kind(
        SequenceConfig, SplitstepForSequenceClassification, AutoModelForSequenceClassification, SplitstepSequenceModel
    ),
)
