"""The same weights in another network: sub-steps, double and half depth, another structure."""

from typing import Any

import pytest
import torch
from tiny import inputs, tiny, tokens
from torch import Tensor, nn
from transformers import DynamicCache

import splitstep as ss
from splitstep.fields import Context, SelfAttention
from splitstep.models import KINDS, coarsened, refined
from splitstep.models.base import all_stacks
from splitstep.models.rebuilt import replayed

SCHEMES = ["lie", "macaron", "strang-heun", "symmetrised-heun", "reversible"]
REGRIDDED = [*((kind, "macaron") for kind in KINDS), *(("causal", scheme) for scheme in SCHEMES if scheme != "macaron")]
REPLAYED = [*((kind, "F0/2 A F1/2") for kind in KINDS), ("causal", "A F"), ("translation", "A N F M")]


def build(kind: str, scheme: str = "A F", **more: Any) -> Any:
    model = tiny(kind, scheme, sharp=False, **({"layers": 4} | more))
    with torch.no_grad():  # norms and biases too, so that a lost one is seen
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def listed(kind: str, scheme: str, **more: Any) -> Any:
    """A model of which each feed-forward field has a width of its own."""
    fields = build(kind, scheme, **more).config.ffn_fields
    return build(kind, scheme, ffn=list(range(8, 8 + fields)), **more)


def logits(model: Any, kind: str) -> Tensor:
    with torch.no_grad():
        return model(**inputs(kind), use_cache=False).logits


@pytest.mark.parametrize("scheme", ["strang-heun", "reversible", "lie-postnorm"])
def test_a_model_with_substeps_has_a_slot_for_each_and_a_hidden_state_for_each_layer(scheme: str) -> None:
    model = build("causal", scheme, substeps=3, positions="rotary", layers=2).double()
    ids, starts = tokens(), list[Tensor]()
    how: dict[str, Any] = dict(attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False)
    assert torch.equal(*(model.generate(ids, **how, use_cache=use) for use in (True, False)))

    def watch(event: ss.Event) -> None:
        if event.site.part == event.site.branch == 0 and event.site.step in (0, 3):
            starts.append(sum(event.state) / 2 if model.body.stack.scheme.doubled else event.state)

    cache = DynamicCache()
    out = model(ids, past_key_values=cache, output_hidden_states=True, observe=watch)
    assert len(cache.layers) == 2 * 3 * model.body.stack.scheme.count("A")
    assert len(out.hidden_states) == 2 + 1
    assert all(torch.equal(a, b) for a, b in zip(out.hidden_states[:2], starts, strict=True))


def test_substeps_share_one_dropout_mask_a_layer() -> None:
    """A pure function of the seed: the double depth of tied layers draws two."""
    model = build("causal", "lie", substeps=2, dropout=0.3, attention_dropout=0.3).train()
    seed = torch.tensor(3)
    assert torch.equal(*(model(tokens(), dropout_seed=seed).logits for _ in range(2)))
    assert not any(field.once for field in model.modules() if isinstance(field, SelfAttention))


@pytest.mark.parametrize("make", [build, listed])
@pytest.mark.parametrize(("kind", "scheme"), REGRIDDED)
def test_double_depth_is_two_substeps_exactly(kind: str, scheme: str, make: Any) -> None:
    model = make(kind, scheme, step=0.5, layers=2)
    before = torch.get_rng_state()
    deep = refined(model, 2)
    assert torch.equal(before, torch.get_rng_state())
    assert type(deep) is type(model)
    assert (deep.config.layers, deep.config.step) == (4, 0.25)
    assert [len(stack.layers) for stack in all_stacks(deep)] == [2 * len(stack.layers) for stack in all_stacks(model)]
    assert torch.equal(logits(deep, kind), logits(replayed(model, substeps=2), kind))
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


@pytest.mark.parametrize(("kind", "scheme"), REPLAYED)
def test_a_replay_that_changes_nothing_gives_the_same_logits_bit_for_bit(kind: str, scheme: str) -> None:
    model = listed(kind, scheme, layers=2)
    assert torch.equal(logits(replayed(model), kind), logits(model, kind))
    assert torch.equal(logits(replayed(model, scheme), kind), logits(model, kind))


def test_a_replay_runs_another_scheme_on_the_same_fields() -> None:
    model = build("image")
    [old] = all_stacks(model)
    x = torch.randn(2, 4, 16)
    for text, step in (("F/2 A F/2", 1.0), ("A+F @rk4", 0.5), ("=A =F", 1.0)):
        [stack] = all_stacks(replayed(model, text, step=step))
        steps = [one._replace(t=i * step, h=step) for i, one in enumerate(old.steps())]
        assert torch.equal(stack(x), ss.integrate(ss.scheme(text), steps, x, Context()))


def test_a_replay_without_norms_has_none_and_keeps_every_other_weight() -> None:
    model = build("sequence")
    new = replayed(model, norm="none")
    assert not any(isinstance(module, nn.LayerNorm) for module in new.modules())
    theirs = model.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in new.state_dict().items())
    assert replayed(build("image", "A N F M"), "A F", norm="none").config.norm == "none"


def test_halves_share_weights_if_that_is_stated() -> None:
    model = build("image", ffn=[8, 16, 24, 32], activation={"F": "relu"})
    new = replayed(model, "F0/2 A F1/2", weights={"F0": "F", "F1": "F"})
    assert torch.equal(logits(new, "image"), logits(replayed(model, "F/2 A F/2"), "image"))
