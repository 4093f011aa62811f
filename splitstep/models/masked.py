"""The masked language model, if wanted with BERT's second head: whether one text follows another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack, final

from torch import Tensor, nn
from transformers import AutoModelForMaskedLM
from transformers.modeling_outputs import MaskedLMOutput

from ..fields import ACTIVATIONS, norm
from ..shape import MaskedShape
from .base import VocabularyHead
from .config import Kind, SplitstepConfig, kind
from .encoder import EncoderModel
from .inputs import Text, check_labels, numbered
from .look import PassOptions
from .losses import pair_loss, read_tokens


class MaskedConfig(MaskedShape, SplitstepConfig):
    """A language model that fills in masked tokens."""

    model_type: ClassVar[str] = "splitstep-masked"


@dataclass
class MaskedOutput(MaskedLMOutput):
    """What a masked language model returns; `next_sentence_logits` if it has that head."""

    next_sentence_logits: Tensor | None = None


@final
class NextSentence(nn.Module):
    """BERT's second head: dense and tanh of the first token's state, then classes."""

    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.pooler = nn.Linear(width, width)
        self.head = nn.Linear(width, labels)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pooler(x).tanh())


class SplitstepForMaskedLM(VocabularyHead, EncoderModel):
    """A masked language model: encoder, then dense, activation, norm and the tied output matrix with a bias."""

    config_class = MaskedConfig
    per_token = ("transform", "head")
    _tied_weights_keys = {"head.weight": f"{EncoderModel.input_at}.weight"}  # noqa: RUF012

    def build(self, config: MaskedConfig) -> None:
        super().build(config)
        self.transform = nn.Linear(config.width, config.width)
        self.norm = norm(config.norm, config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab_size)
        labels = config.next_sentence_labels
        self.next_sentence = NextSentence(config.width, labels) if labels else None

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
        masked_positions: Tensor | None = None,
        next_sentence_positions: Tensor | None = None,
        next_sentence_targets: Tensor | None = None,
        next_sentence_weights: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> MaskedOutput:
        """Logits [B, T, V] and the loss of labels [B, T]; with `masked_positions` [B, M], logits and labels of those
        positions alone: [B, M, V] and [B, M]. `seq_idx` numbers the texts of packed rows.

        `next_sentence_targets` is one for each row [B], -100 where none counts (called a label, transformers' Trainer
        would want one in every batch); with `next_sentence_positions` [B, K] of
        the first tokens of the pairs in packed rows, one for each of these. Its loss is added: a mean, or a sum with
        `next_sentence_weights`.
        """
        look, text = self.look(options), Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        x = self.read(look, numbered(text, seq_idx))
        chosen = self.transformed(x if masked_positions is None else states_at(x, masked_positions))
        logits, loss = read_tokens(self.head, chosen, labels, num_items_in_batch)
        second = self.read_pairs(x, next_sentence_positions, next_sentence_targets)
        if second is not None and next_sentence_targets is not None:
            added = pair_loss(second, next_sentence_targets, next_sentence_weights)
            loss = added if loss is None else loss + added
        return look.answer(MaskedOutput(loss, logits, *look.seen(x), second))  # pyright: ignore[reportArgumentType]

    def transformed(self, x: Tensor) -> Tensor:
        """What the output matrix reads."""
        return self.norm(ACTIVATIONS["gelu"](self.transform(x)))

    def read_pairs(self, x: Tensor, positions: Tensor | None, labels: Tensor | None) -> Tensor | None:
        """The second head's logits: of each row, or of the pairs at these positions; None if there is no such head."""
        if self.next_sentence is None:
            if labels is not None or positions is not None:
                raise ValueError(
                    "This model has no head for next sentences: make it with next_sentence_labels=2 and token_types=2, "
                    "or leave out next_sentence_targets and next_sentence_positions."
                )
            return None
        logits = self.next_sentence(x[:, 0] if positions is None else states_at(x, positions))
        if labels is not None:
            check_labels(labels, logits, "labels of next sentences")
        return logits


def states_at(x: Tensor, positions: Tensor) -> Tensor:
    """The states [B, M, width] at these positions [B, M] of each row."""
    return x.gather(1, positions[..., None].expand(-1, -1, x.shape[-1]))


@final
class SplitstepMaskedModel(EncoderModel):
    """A masked language model without its head."""

    config_class = MaskedConfig
    forward = EncoderModel.bare


MASKED = kind("masked", Kind(MaskedConfig, SplitstepForMaskedLM, AutoModelForMaskedLM, SplitstepMaskedModel))
