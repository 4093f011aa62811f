"""Rows of several texts in an encoder: each is read as if it were alone; logits at masked positions only."""

from __future__ import annotations

from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

import splitstep as ss

LENGTHS = ((5, 1, 6), (12,), (2, 3, 7))  # of the texts in each row of 12 tokens
SEQ_IDX = torch.tensor([[n for n, size in enumerate(row) for _ in range(size)] for row in LENGTHS])
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


def pieces(x: Tensor) -> list[Tensor]:
    """The texts of each row, [1, size, ..] each."""
    return [part[None] for row, sizes in zip(x, LENGTHS, strict=True) for part in row.split(sizes)]


def test_the_model_without_a_head_packs_as_well() -> None:
    torch.manual_seed(0)
    model, ids = ss.models.SplitstepMaskedModel(ss.MaskedConfig(**tiny.SHAPES["masked"])).eval(), tiny.tokens(0, 3, 12)
    packed = model(ids, seq_idx=SEQ_IDX).last_hidden_state
    for text, states in zip(pieces(ids), pieces(packed), strict=True):
        torch.testing.assert_close(states, model(text).last_hidden_state, **CLOSE)


def test_padding_behind_packed_texts_influences_nothing() -> None:
    model, ids = tiny.tiny("masked"), tiny.tokens(rows=3, length=12)
    mask = (torch.arange(12) < torch.tensor([[9], [12], [8]])).long()
    found = model(ids, attention_mask=mask, seq_idx=SEQ_IDX).logits
    changed = torch.where(mask.bool(), ids, ids.flip(0))
    again = model(changed, attention_mask=mask, seq_idx=SEQ_IDX).logits
    assert torch.equal(found[mask.bool()], again[mask.bool()])
    torch.testing.assert_close(found[0, 6:9], model(ids[:1, 6:9]).logits[0], **CLOSE)
    assert found.isfinite().all()


def test_logits_and_loss_at_masked_positions_are_those_of_all_positions() -> None:
    model, ids = tiny.tiny("masked"), tiny.tokens(rows=3, length=12)
    at = torch.tensor([[0, 3, 11], [2, 5, 6], [1, 4, 10]])
    few = tiny.tokens(1, 3, 3)
    every = torch.full((3, 12), -100).scatter(1, at, few)
    one, two = model(ids, labels=every, seq_idx=SEQ_IDX), model(ids, labels=few, masked_positions=at, seq_idx=SEQ_IDX)
    assert two.logits.shape == (3, 3, tiny.VOCAB)
    torch.testing.assert_close(two.logits, one.logits.gather(1, at[..., None].expand(-1, -1, tiny.VOCAB)), **CLOSE)
    torch.testing.assert_close(two.loss, one.loss, **CLOSE)
    gradients = [torch.autograd.grad(out.loss, list(model.parameters())) for out in (one, two)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def test_packed_training_compiles_whole() -> None:
    model, ids = tiny.tiny("masked").train(), tiny.tokens(rows=3, length=12)
    at = torch.tensor([[0, 3, 11], [2, 5, 6], [1, 4, 10]])
    given = {"labels": tiny.tokens(1, 3, 3), "masked_positions": at, "seq_idx": SEQ_IDX}
    compiled: Any = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(ids, **given).loss, model(ids, **given).loss, **CLOSE)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"seq_idx": SEQ_IDX[:, 1:]}, r"seq_idx has shape \[3, 11\]: the tokens need \[3, 12\]"),
        ({"seq_idx": SEQ_IDX, "attention_mask": torch.ones(3, 1, 12, 12)}, "leave one out"),
        (
            {"labels": tiny.tokens(rows=3, length=12), "masked_positions": torch.zeros(3, 2).long()},
            "one label for each",
        ),
    ],
)
def test_wrong_shapes_are_refused_in_one_line(given: dict[str, Tensor], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tiny.tiny("masked")(tiny.tokens(rows=3, length=12), **given)
