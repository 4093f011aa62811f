"""The classifier of token sequences."""

from __future__ import annotations

from typing import Any, ClassVar, final

from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.modeling_outputs import SequenceClassifierOutput

from ..integrate import Observe
from ..kernels.output_product import project
from ..shape import SequenceShape
from .arguments import answer, check_arguments
from .classes import class_loss
from .config import SplitstepConfig
from .encoder import Encoder, EncoderModel, EncoderStates
from .kinds import kind
from .watch import Watch


class SequenceConfig(SequenceShape, SplitstepConfig):
    """A classifier of token sequences."""

    model_type: ClassVar[str] = "splitstep-sequence"


class SplitstepForSequenceClassification(EncoderModel):
    """A classifier of token sequences."""

    config_class = SequenceConfig
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

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> SequenceClassifierOutput:
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed)
        logits, wide = project(self.head, pooled(x, attention_mask, self.config.pool))
        loss = None if labels is None else class_loss(self.config, logits, labels, num_items_in_batch, wide)
        out = SequenceClassifierOutput(loss, logits, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


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


SEQUENCE = kind(
    "sequence",
    SequenceConfig,
    SplitstepForSequenceClassification,
    AutoModelForSequenceClassification,
    SplitstepSequenceModel,
)
