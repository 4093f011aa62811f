"""Gradient checkpointing changes memory, not gradients."""

from typing import Any

import pytest
import torch
from tiny import EACH, inputs, labels, tiny

from splitstep.models.base import all_stacks


def gradients(model: Any, kind: str) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(**inputs(kind), labels=labels(kind), dropout_seed=torch.tensor(5)).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def calls_of(model: Any, kind: str) -> int:
    """How often attention runs in a forward and a backward pass."""
    calls: list[int] = []
    fields = [layer["A"] for stack in all_stacks(model) for layer in stack.layers]
    hooks = [field.register_forward_hook(lambda *_: calls.append(1)) for field in fields]
    gradients(model, kind)
    for hook in hooks:
        hook.remove()
    return len(calls)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(("kind", "scheme"), [*EACH, *((kind, "D/2@exact A F D/2") for kind in ("causal", "sequence"))])
def test_gradients_are_the_same(kind: str, scheme: str, reentrant: bool) -> None:
    model = tiny(kind, scheme, dropout=0.1, attention_dropout=0.1).train()
    plain, once = gradients(model, kind), calls_of(model, kind)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    assert model.is_gradient_checkpointing
    found = gradients(model, kind)
    for name, grad in plain.items():
        torch.testing.assert_close(found[name], grad, atol=1e-6, rtol=1e-5, msg=name)
    # every step runs twice; a reversible network is rebuilt part by part anyway
    assert calls_of(model, kind) == (once if scheme == "reversible" else 2 * once)
    model.gradient_checkpointing_disable()
    assert calls_of(model, kind) == once


@pytest.mark.parametrize("kind", ["causal", "translation"])
def test_a_watched_pass_is_not_run_again(kind: str) -> None:
    """A probe would see everything twice."""
    model = tiny(kind).train()
    model.gradient_checkpointing_enable()
    events: list[Any] = []
    model(**inputs(kind), labels=labels(kind), observe=events.append).loss.backward()
    parts = sum(len(stack.layers) * sum(len(p) for _, p in stack.scheme.plan) for stack in all_stacks(model))
    assert len(events) == parts
