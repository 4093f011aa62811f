"""AutoModel opens the body of every checkpoint and returns its bare states; every head opens by its Auto class."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import EACH, inputs, tiny
from transformers import AutoModel

from splitstep.models import KINDS

WITH_BODY = [(kind, scheme) for kind, scheme in EACH if KINDS[kind].body]  # AutoModel opens others with their head


def last_states(kind: str, model: Any) -> Any:
    """The states that the head reads, by a hook before it: the oracle."""
    seen: list[Any] = []
    body = model.decoder if kind == "translation" else model.body if kind in ("causal", "image") else model.encoder.body
    with body.register_forward_hook(lambda *call: seen.append(call[-1])):
        model(**inputs(kind))
    return seen[-1]


@pytest.mark.parametrize(("kind", "scheme"), WITH_BODY)
def test_auto_model_returns_the_states_that_the_head_reads(kind: str, scheme: str, tmp_path: Path) -> None:
    model = tiny(kind, scheme)
    model.save_pretrained(tmp_path)
    bare = AutoModel.from_pretrained(tmp_path).eval()
    out = bare(**inputs(kind), output_hidden_states=True)
    assert torch.equal(out.last_hidden_state, last_states(kind, model))
    hidden = out.decoder_hidden_states if kind == "translation" else out.hidden_states
    assert len(hidden) == 3  # the start of each layer, and the end
    assert torch.equal(hidden[-1], out.last_hidden_state)
    if kind == "translation":
        assert torch.equal(out.encoder_last_hidden_state, out.encoder_hidden_states[-1])
    mine, theirs = bare.state_dict(), model.state_dict()
    assert mine.keys() < theirs.keys()
    assert all(torch.equal(weight, theirs[name]) for name, weight in mine.items())


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_body_saved_by_itself_opens_again_and_lends_itself_to_a_new_head(kind: str, tmp_path: Path) -> None:
    bare = AutoModel.from_config(tiny(kind).config)
    bare.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path)
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in bare.state_dict().items())
    headed = KINDS[kind].auto.from_pretrained(tmp_path)
    assert type(headed) is KINDS[kind].model
    assert all(torch.equal(weight, headed.state_dict()[name]) for name, weight in bare.state_dict().items())


@pytest.mark.parametrize(("kind", "scheme"), WITH_BODY)
def test_base_model_is_the_model_without_its_head(kind: str, scheme: str) -> None:
    """Trainers that work out logits by themselves call it; it holds no weights of its own."""
    model = tiny(kind, scheme)
    assert torch.equal(model.base_model(**inputs(kind)).last_hidden_state, last_states(kind, model))
    assert not list(model.base_model.parameters())
