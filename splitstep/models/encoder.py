"""Tokens to states under a padding mask, and what reads them: the classifier of tokens, and the masked language model,
if wanted with BERT's second head, whether one text follows another."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack, final

from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from ..fields import ACTIVATIONS, norm
from ..kernels.loss import project
from ..shape import MaskedShape, SequenceShape
from .base import SplitstepModel, VocabularyHead
from .body import Body, Embedding
from .config import Kind, SplitstepConfig, kind
from .inputs import Text, check_labels, numbered
from .outputs import Look, PassOptions, class_loss, pair_loss, read_tokens


class Encoder(nn.Module):
    """Tokens to states: embedding and body under a padding mask."""

    main_input_name = "input_ids"  # `generate` asks for it

    def __init__(self, config: Any, salts: Iterator[int] | None = None) -> None:
        super().__init__()
        self.config = config
        body = Body(config, 0, salts)  # before the embedding: weights are drawn in this order
        self.embedding = Embedding(config)
        self.body = body

    def forward(self, text: Text, seed: Tensor | None = None, look: Look | None = None) -> Tensor:
        """States of the tokens."""
        x, context = self.embedding(text, seed)
        return self.body(x, context) if look is None else self.body.shown(x, context, look)


class EncoderModel(SplitstepModel):
    """What the models with one encoder share: from tokens to states."""

    base_model_prefix = "encoder"
    input_at = "encoder.embedding.tokens"

    def build(self, config: Any) -> None:
        self.encoder = Encoder(config)

    def read(self, look: Look, text: Text) -> Tensor:
        """The states of tokens, or of their vectors."""
        return self.encoder(text, self.seed(look, text.given().device), look)

    def bare(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        seq_idx: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> BaseModelOutput:
        """The states, as the model without a head returns them."""
        look, text = self.look(options), Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        x = self.read(look, numbered(text, seq_idx))
        return look.answer(BaseModelOutput(x, *look.seen(x)))  # pyright: ignore[reportArgumentType]


class SequenceConfig(SequenceShape, SplitstepConfig):
    """A classifier of token sequences."""

    model_type: ClassVar[str] = "splitstep-sequence"


class SplitstepForSequenceClassification(EncoderModel):
    """A classifier of token sequences."""

    config_class = SequenceConfig
    per_example = ("head",)

    def build(self, config: SequenceConfig) -> None:
        super().build(config)
        self.head = nn.Linear(config.width, config.num_labels)  # pyright: ignore[reportArgumentType]

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
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **options: Unpack[PassOptions],
    ) -> SequenceClassifierOutput:
        look = self.look(options)
        x = self.read(look, Text(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds))
        logits, wide = project(self.head, pooled(x, attention_mask, self.config.pool))
        loss = None if labels is None else class_loss(self.config, logits, labels, num_items_in_batch, wide)
        return look.answer(SequenceClassifierOutput(loss, logits, *look.seen(x)))  # pyright: ignore[reportArgumentType]


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
class SplitstepSequenceModel(EncoderModel):
    """A classifier of token sequences without its head."""

    config_class = SequenceConfig
    forward = EncoderModel.bare


AUTO = AutoModelForSequenceClassification
SEQUENCE = kind("sequence", Kind(SequenceConfig, SplitstepForSequenceClassification, AUTO, SplitstepSequenceModel))


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
