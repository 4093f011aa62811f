"""The masked language model."""

from __future__ import annotations

from typing import Any, ClassVar, final

from torch import Tensor, nn
from transformers import AutoModelForMaskedLM
from transformers.modeling_outputs import MaskedLMOutput

from ..fields import ACTIVATIONS, norm
from ..integrate import Observe
from ..kernels.loss import cross_entropy
from ..kernels.output_product import project
from .arguments import answer, check_arguments
from .base import VocabularyHead
from .config import TextConfig
from .encoder import Encoder, EncoderModel, EncoderStates
from .inputs import check_labels
from .kinds import KINDS, kind
from .watch import Watch


class MaskedConfig(TextConfig):
    """A language model that fills in masked tokens, with BERT's head: dense, activation, norm, output matrix."""

    model_type: ClassVar[str] = "splitstep-masked"


class SplitstepForMaskedLM(VocabularyHead, EncoderModel):
    """A masked language model: encoder, then dense, activation, norm and the tied output matrix with a bias."""

    config_class = MaskedConfig
    per_token = ("transform", "head")
    _tied_weights_keys = {"head.weight": f"{EncoderModel.tokens_at}.weight"}  # noqa: RUF012

    def __init__(self, config: MaskedConfig) -> None:
        super().__init__(config)
        self.encoder = Encoder(config)
        self.transform = nn.Linear(config.width, config.width)
        self.norm = norm(config.norm, config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab_size)
        self.post_init()

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
        seq_idx: Tensor | None = None,
        masked_positions: Tensor | None = None,
        piece_ends: Tensor | None = None,
        **others: Any,
    ) -> MaskedLMOutput:
        """Logits [B, T, V] and the loss of labels [B, T]; with `masked_positions` [B, M], logits and labels of those
        positions alone: [B, M, V] and [B, M]. `seq_idx` numbers the texts of packed rows, and `piece_ends` [B, P] may
        say where they end: attention is then computed text by text on a GPU, in half precision."""
        check_arguments(self, others)
        watch = Watch(self.config, observe, output_hidden_states, output_attentions)
        x = self.read(
            watch, input_ids, inputs_embeds, attention_mask, position_ids, token_type_ids, dropout_seed, seq_idx,
            piece_ends,
        )  # fmt: skip
        logits, wide = self.read_out(x if masked_positions is None else states_at(x, masked_positions))
        loss = None
        if labels is not None:
            check_labels(labels, logits)
            loss = cross_entropy(logits, labels, num_items_in_batch, wide=wide)
        out = MaskedLMOutput(loss, logits, watch.states(x), watch.attentions())  # pyright: ignore
        return answer(self.config, return_dict, out)

    def read_out(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the states, plain and as `cross_entropy` reads them: what `project` returns."""
        return project(self.head, self.norm(ACTIVATIONS["gelu"](self.transform(x))))


def states_at(x: Tensor, positions: Tensor) -> Tensor:
    """The states [B, M, width] at these positions [B, M] of each row."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))


@final
class SplitstepMaskedModel(EncoderStates):
    """A masked language model without its head."""

    config_class = MaskedConfig


KINDS.add("masked", kind(MaskedConfig, SplitstepForMaskedLM, AutoModelForMaskedLM, SplitstepMaskedModel))
