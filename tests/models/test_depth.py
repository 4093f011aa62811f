"""Depth as a grid: sub-steps, networks of double depth, networks of half depth."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny import inputs, tiny
from torch import Tensor
from transformers import DynamicCache

import splitstep as ss
from splitstep.fields import SelfAttention
from splitstep.models import KINDS, coarsened, refined
from splitstep.models.base import all_stacks
from splitstep.models.inputs import Text

SCHEMES = ["lie", "macaron", "strang-heun", "symmetrised-heun", "reversible"]


def build(kind: str, scheme: str, **more: Any) -> Any:
    return tiny(kind, scheme, sharp=False, **({"layers": 4} | more))


def with_substeps(model: Any, substeps: int) -> Any:
    """The same weights, each layer cut into so many steps."""
    config = type(model.config)(**{**model.config.to_dict(), "substeps": substeps})
    other = type(model)(config)
    other.load_state_dict(model.state_dict())
    return other.train(model.training)


# Sub-steps


@pytest.mark.parametrize("scheme", SCHEMES)
def test_substeps_are_refined_steps(scheme: str) -> None:
    model = build("causal", scheme, step=0.5)
    x, context = model.embedding(Text(inputs("causal")["input_ids"]), past=0)
    stack = model.body.stack
    steps = ss.refine(stack.steps(), 3)
    expected = ss.integrate(stack.scheme, steps, (x, x) if stack.scheme.doubled else x, context)
    expected = (expected[0] + expected[1]) / 2 if stack.scheme.doubled else expected
    assert torch.equal(with_substeps(model, 3).body.stack(x, context), expected)
    assert torch.equal(with_substeps(model, 1).body.stack(x, context), stack(x, context))


@pytest.mark.parametrize("scheme", [*SCHEMES, "lie-postnorm"])
def test_generation_with_substeps_is_the_same_with_a_cache(scheme: str) -> None:
    model = build("causal", scheme, substeps=3, positions="rotary").double()
    tokens = inputs("causal")["input_ids"]
    how: dict[str, Any] = dict(attention_mask=torch.ones_like(tokens), max_new_tokens=6, do_sample=False)
    cached, plain = (model.generate(tokens, **how, use_cache=use) for use in (True, False))
    assert torch.equal(cached, plain)
    cache = DynamicCache()
    model(tokens, past_key_values=cache)
    assert len(cache.layers) == 4 * 3 * model.body.stack.scheme.count("A")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_hidden_states_are_one_per_layer_whatever_the_substeps(scheme: str) -> None:
    model = build("causal", scheme, substeps=3)
    starts: list[Tensor] = []

    def watch(event: ss.Event) -> None:
        if event.site.part == event.site.branch == 0 and event.site.step in (0, 3, 6, 9):
            starts.append(sum(event.state) / 2 if model.body.stack.scheme.doubled else event.state)

    out = model(**inputs("causal"), output_hidden_states=True, observe=watch)
    assert len(out.hidden_states) == 4 + 1
    assert all(torch.equal(a, b) for a, b in zip(out.hidden_states[:4], starts, strict=True))


def test_substeps_share_one_dropout_mask_a_layer() -> None:
    """A pure function of the seed: the double depth of tied layers draws two."""
    model = build("causal", "lie", substeps=2, dropout=0.3, attention_dropout=0.3).train()
    tokens, seed = inputs("causal")["input_ids"], torch.tensor(3)
    assert torch.equal(model(tokens, dropout_seed=seed).logits, model(tokens, dropout_seed=seed).logits)
    assert not any(field.once for field in model.modules() if isinstance(field, SelfAttention))


# Twins in depth


@pytest.mark.parametrize("ffn", ["one", "list"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_double_depth_is_two_substeps_exactly(kind: str, scheme: str, ffn: str) -> None:
    model = build(kind, scheme, step=0.5)
    if ffn == "list":
        model = build(kind, scheme, step=0.5, ffn=list(range(8, 8 + model.config.ffn_fields)))
    before = torch.get_rng_state()
    deep = refined(model, 2)
    assert torch.equal(before, torch.get_rng_state())
    assert type(deep) is type(model)
    assert (deep.config.layers, deep.config.step) == (8, 0.25)
    assert [len(stack.layers) for stack in all_stacks(deep)] == [2 * len(stack.layers) for stack in all_stacks(model)]
    given = inputs(kind)
    assert torch.equal(deep(**given).logits, with_substeps(model, 2)(**given).logits)
    back = coarsened(deep, 2)
    assert back.config.to_dict() == model.config.to_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name


def test_half_depth_has_mean_weights_at_twice_the_step() -> None:
    model = build("causal", "lie", step=0.5)
    half = coarsened(model.double(), 2)
    assert (half.config.layers, half.config.step, half.dtype) == (2, 1.0, torch.float64)
    layers = model.body.stack.layers
    for name, weight in half.body.stack.state_dict().items():
        _, layer, rest = name.split(".", 2)
        one, other = (layers[2 * int(layer) + i].state_dict()[rest] for i in (0, 1))
        torch.testing.assert_close(weight, (one + other) / 2, atol=1e-15, rtol=0)


def test_half_depth_of_equal_neighbours_is_one_step_of_twice_the_length() -> None:
    """x + 2h f(x) in place of two steps of x + h f(x)."""
    model = build("causal", "parallel", step=0.5, layers=2)
    first, second = model.body.stack.layers
    second.load_state_dict(first.state_dict())
    half = coarsened(model, 2)
    x, context = half.embedding(Text(inputs("causal")["input_ids"]), past=0)
    expected = x + 1.0 * (first["A"](0.0, x, context) + first["F"](0.0, x, context))
    torch.testing.assert_close(half.body.stack(x, context), expected)
    assert torch.equal(x, model.embedding(Text(inputs("causal")["input_ids"]), past=0)[0])


WRONG = [
    (lambda: refined(build("causal", "lie-postnorm")), "'A N F M' projects or replaces the state"),
    (lambda: coarsened(build("masked", "=A F")), "'=A F' projects or replaces the state"),
    (lambda: coarsened(build("translation", "lie"), 4), "2 layers cannot be joined by 4"),
    (lambda: coarsened(build("causal", "lie", ffn=[8, 8, 8, 9])), "unequal widths ffn=[[8], [9]] have no mean"),
    (lambda: refined(build("causal", "lie"), 0), "times=0"),
    (lambda: build("causal", "lie", substeps=0), "substeps=0 must be a positive number."),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_what_cannot_be_refined_or_joined_is_one_clear_line(wrong: Any, says: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as error:
        wrong()
    assert says in str(error.value)
    assert "\n" not in str(error.value)
