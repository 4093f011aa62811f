"""Replay: the same weights under another structure."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import inputs, tiny
from torch import Tensor, nn

import splitstep as ss
from splitstep.fields import Context
from splitstep.models.base import all_stacks
from splitstep.models.rebuilt import replayed

TIED = {"F0": "F", "F1": "F"}


def build(kind: str, scheme: str = "A F", **more: Any) -> Any:
    model = tiny(kind, scheme, sharp=False, **({"layers": 3} | more))
    with torch.no_grad():  # norms and biases too, so that a lost one is seen
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def logits(model: Any, kind: str) -> Tensor:
    with torch.no_grad():
        return model(**inputs(kind), use_cache=False).logits


@pytest.mark.parametrize("kind", ["image", "sequence", "causal", "masked", "translation"])
@pytest.mark.parametrize("scheme", ["A F", "A N F M", "F0/2 A F1/2"])
def test_a_replay_that_changes_nothing_gives_the_same_logits_bit_for_bit(kind: str, scheme: str) -> None:
    model = build(kind, scheme, ffn=[*range(8, 8 * 40, 8)][: _fields(kind, scheme)])
    assert torch.equal(logits(replayed(model), kind), logits(model, kind))
    assert torch.equal(logits(replayed(model, scheme), kind), logits(model, kind))


def _fields(kind: str, scheme: str) -> int:
    return (5 if kind == "translation" else 3) * scheme.count("F")


@pytest.mark.parametrize("kind", ["image", "causal"])
def test_substeps_of_a_replay_are_refined_steps(kind: str) -> None:
    model = build(kind)
    new = replayed(model, substeps=3)
    [old], [stack] = all_stacks(model), all_stacks(new)
    x = torch.randn(2, 4, 16)
    expected = ss.integrate(old.scheme, ss.refine(old.steps(), 3), x, Context(causal=kind == "causal"))
    assert torch.equal(stack(x, Context(causal=kind == "causal")), expected)


def test_a_replay_runs_another_scheme_on_the_same_fields() -> None:
    model = build("image")
    [old] = all_stacks(model)
    x = torch.randn(2, 4, 16)
    for text, step in (("F/2 A F/2", 1.0), ("A+F @rk4", 0.5), ("=A =F", 1.0)):
        [stack] = all_stacks(replayed(model, text, step=step))
        steps = [one._replace(t=i * step, h=step) for i, one in enumerate(old.steps())]
        assert torch.equal(stack(x), ss.integrate(ss.scheme(text), steps, x))


def test_a_replay_without_norms_has_none_and_keeps_every_other_weight() -> None:
    model = build("sequence")
    new = replayed(model, norm="none")
    assert not any(isinstance(module, nn.LayerNorm) for module in new.modules())
    theirs = model.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in new.state_dict().items())


def test_halves_share_weights_only_if_that_is_stated() -> None:
    model = build("image", ffn=[8, 16, 24], activation={"F": "relu"})
    with pytest.raises(ValueError, match="say whose weights it gets"):
        replayed(model, "F0/2 A F1/2")
    new = replayed(model, "F0/2 A F1/2", weights=TIED)
    assert torch.equal(logits(new, "image"), logits(replayed(model, "F/2 A F/2"), "image"))


def test_post_norm_weights_do_not_serve_as_pre_norm_weights() -> None:
    model = build("image", "A N F M")
    with pytest.raises(ValueError, match="cannot stand in for each other"):
        replayed(model, "A F")
    with pytest.raises(ValueError, match="needs weights for M"):
        replayed(build("image"), "A N F M")
    assert replayed(model, "A F", norm="none").config.norm == "none"


def test_a_norm_of_another_kind_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="norm='rms': the weights are those of norm='layer'"):
        replayed(build("image"), norm="rms")
