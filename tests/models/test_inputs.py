"""Wrong inputs of models are one line that says what is needed; right ones of unusual shape still pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import LENGTH, VOCAB, inputs, labels, tiny, tokens

from splitstep.models import KINDS, CausalConfig, TranslationConfig

TEXT = ["causal", "masked", "sequence", "translation"]


def refused(model: Any, message: str, **given: Any) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        model(**given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", TEXT)
def test_a_mask_of_three_dimensions_is_refused(kind: str) -> None:
    given = inputs(kind) | {"attention_mask": torch.ones(3, LENGTH, LENGTH)}
    refused(tiny(kind), r"^attention_mask has shape \[3, 7, 7\]: use \[batch, tokens\], or", **given)


def test_a_mask_of_the_memory_is_checked_without_an_encoder() -> None:
    model, given = tiny("translation"), inputs("translation")
    given["encoder_outputs"] = (torch.zeros(3, LENGTH, 16),)
    refused(model, r"^attention_mask has shape", **given | {"input_ids": None, "attention_mask": torch.ones(3, 1, 7)})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["causal", "masked", "sequence"])
def test_positions_are_one_for_each_token(kind: str, packed: bool) -> None:
    model, given = tiny(kind), inputs(kind)
    if packed:
        del given["attention_mask"]
    for wrong in (torch.arange(LENGTH), torch.arange(LENGTH - 1)[None], torch.zeros(2, LENGTH, dtype=torch.long)):
        refused(model, r"^position_ids have shape .*: the tokens need \[3, 7\]", **given, position_ids=wrong)
    one = torch.arange(LENGTH)[None]
    for right in (one, one.expand(3, -1)):
        assert model(**given, position_ids=right).logits.isfinite().all()
    refused(model, r"^position_ids hold 40, and this model has 40: use 0 to 39\.$", **given, position_ids=one + 34)


@pytest.mark.parametrize("kind", list(KINDS))
def test_labels_are_one_for_each_answer(kind: str) -> None:
    model, given = tiny(kind), inputs(kind)
    for wrong in (labels(kind)[:2], torch.cat((labels(kind), labels(kind)), -1)):
        refused(model, r"^labels have shape \[.*\], and there are logits for \[3", **given, labels=wrong)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("wrong", [VOCAB, -1])
def test_tokens_outside_of_the_vocabulary_are_named(kind: str, wrong: int) -> None:
    given = inputs(kind) | {"input_ids": tokens().index_fill(1, torch.tensor([4]), wrong)}
    refused(tiny(kind), rf"^input_ids hold {wrong}, and this model has {VOCAB}: use 0 to {VOCAB - 1}\.$", **given)


def test_two_names_of_one_entry_must_agree() -> None:
    with pytest.raises(ValueError, match=r"^hidden_size=64 and width=32 are two names of one entry: give one of them"):
        CausalConfig(hidden_size=64, width=32)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValueError, match=r"^num_hidden_layers=2 and layers=3 are two names"):
        TranslationConfig(num_hidden_layers=2, layers=3)  # pyright: ignore[reportCallIssue]
    agreed: Any = CausalConfig(hidden_size=64, width=64)  # pyright: ignore[reportCallIssue]
    assert agreed.width == agreed.hidden_size == 64
    assert CausalConfig.from_dict(agreed.to_dict(), hidden_size=32).width == 32
