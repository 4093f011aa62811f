"""The map from sequences of vectors to sequences of vectors."""

from __future__ import annotations

from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_outputs import BaseModelOutput, TokenClassifierOutput

from ..fields import Context
from ..integrate import Observe
from ..shape import VectorsShape
from .arguments import answer, check_arguments
from .base import SplitstepModel
from .body import Body, rotary_angles, seed_for, sinusoids
from .config import SplitstepConfig
from .inputs import check_mask
from .kinds import kind
from .masks import documents_of, padding_barrier
from .watch import Watch


class VectorsConfig(VectorsShape, SplitstepConfig):
    """A map of sequences of vectors."""

    model_type: ClassVar[str] = "splitstep-vectors"


@final
class SplitstepVectorsModel(SplitstepModel):
    """A map of sequences of vectors: linear embedding, positions, stack, linear read-out. The loss is the mean square.

    `values` [B, T, inputs] are real numbers; `logits` [B, T, outputs] is what transformers calls the output.
    """

    config_class = VectorsConfig
    main_input_name = "values"
    per_token = ("embedding", "head")

    def __init__(self, config: VectorsConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Linear(config.inputs, config.width)
        self.positions = nn.Embedding(config.max_positions, config.width) if config.positions == "learned" else None
        self.body = Body(config)
        self.head = nn.Linear(config.width, config.outputs)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def embed(self, values: Tensor) -> Tensor:
        """The states before the stack."""
        if values.ndim != 3 or values.shape[2] != self.config.inputs:
            raise ValueError(
                f"values have shape {list(values.shape)}: this model takes [batch, tokens, {self.config.inputs}]."
            )
        self.config.check_length(values.shape[1])
        x = self.embedding(values.to(self.embedding.weight.dtype)).to(self.embedding.weight.dtype)
        positions = torch.arange(x.shape[1], device=x.device)[None]
        if self.positions is not None:
            x = x + self.positions(positions)
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(positions, self.config.width).to(x.dtype)
        return x

    def read(self, watch: Watch, values: Tensor, mask: Tensor | None, dropout_seed: Tensor | None) -> Tensor:
        """The states after the stack."""
        if mask is not None:
            check_mask(mask)
        x, weight = self.embed(values), self.embedding.weight
        positions = torch.arange(x.shape[1], device=x.device)[None]
        context = Context(
            mask=padding_barrier(mask, weight),
            rotary=rotary_angles(self.config, positions, weight),
            seed=seed_for(self, self.config, dropout_seed, x.device),
            documents=documents_of(mask, False) if "D" in self.config.scheme else None,
            record=watch.record,
        )
        return self.body(x, context, watch.observe)

    def bare(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        values: Tensor,
        attention_mask: Tensor | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> BaseModelOutput:
        """The states, before the read-out."""
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, values, attention_mask, dropout_seed)
        return answer(self.config, return_dict, BaseModelOutput(x, watch.states(x), watch.attentions()))  # pyright: ignore

    def forward(
        self,
        values: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        dropout_seed: Tensor | None = None,
        output_hidden_states: bool | None = None,
        observe: Observe | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> TokenClassifierOutput:
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(watch, values, attention_mask, dropout_seed)
        y = self.head(x)
        loss = None if labels is None else mean_square(y, labels, attention_mask, num_items_in_batch)
        out = TokenClassifierOutput(loss, y, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)


def mean_square(y: Tensor, labels: Tensor, mask: Tensor | None, items: Tensor | int | None) -> Tensor:
    """The mean square of the difference over tokens that are not padding, or the sum divided by `items`."""
    if labels.shape != y.shape:
        raise ValueError(
            f"labels have shape {list(labels.shape)}, and there are logits for {list(y.shape)}: give as many."
        )
    square = (y - labels).square()
    if mask is not None and mask.ndim == 2:
        square = square[mask.bool()]
    return square.mean() if items is None else square.sum() / items


VECTORS = kind("vectors", VectorsConfig, SplitstepVectorsModel, AutoModel)
