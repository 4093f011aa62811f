"""What probes say about states and gradients is what direct computation gives; padding never counts."""

from typing import Any

import pytest
import torch
from tiny import inputs, labels, tiny
from torch import Tensor

from splitstep.probes import PROBES, observe

SCHEMES = ["lie", "strang-midpoint", "lie-postnorm", "reversible", "1/2(A F) + 1/2(F A)"]
PADDED = ["sequence", "causal", "masked", "translation"]


def states_of(model: Any, given: dict[str, Tensor]) -> list[Tensor]:
    """The states at the start of each layer, as Hugging Face counts them, and what the stack returns."""
    returned: list[Tensor] = []
    with model.get_submodule(stack_of(model)).register_forward_hook(lambda module, _, x: returned.append(x)):
        out = model(**given, output_hidden_states=True)
    states = out.encoder_hidden_states if "encoder_hidden_states" in out else out.hidden_states
    return [*states[:-1], returned[0]]


def stack_of(model: Any) -> str:
    return next(name for name, module in model.named_modules() if type(module).__name__ == "Stack")


def vectors(model: Any, given: dict[str, Tensor]) -> list[Tensor]:
    """The states without those of padding, one row for each token."""
    real = given["attention_mask"].bool() if "attention_mask" in given else ...
    return [x[real].flatten(0, -2) for x in states_of(model, given)]


@pytest.mark.parametrize("kind", [*PADDED, "image"])
@pytest.mark.parametrize("scheme", SCHEMES)
@torch.no_grad()
def test_drift_is_the_mean_cosine_of_hidden_states(kind: str, scheme: str) -> None:
    model, given = tiny(kind, scheme), {**inputs(kind), "labels": labels(kind)}
    found = observe(model, given, ["drift"])["drift"][stack_of(model)]
    x = [one.double() for one in vectors(model, given)]
    for name, others in (("input", [x[0]] * 2), ("previous", x[:-1])):
        cosines = [(u * v).sum(-1) / (u.norm(dim=-1) * v.norm(dim=-1)) for u, v in zip(x[1:], others, strict=True)]
        assert found[name] == pytest.approx([float(c.mean()) for c in cosines], abs=1e-5)


@torch.no_grad()
def test_a_layer_of_several_steps_counts_once() -> None:
    model, given = tiny("sequence", "lie", substeps=3), inputs("sequence")
    found = observe(model, given, ["drift", "states"])
    assert [len(series) for series in found["drift"]["encoder.body.stack"].values()] == [2, 2]
    assert found["states"]["encoder.body.stack"]["pooled"].shape[0] == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", [*PADDED, "image"])
@torch.no_grad()
def test_states_are_pooled_over_real_tokens(kind: str) -> None:
    model, given = tiny(kind), {**inputs(kind), "labels": labels(kind)}
    found: Any = observe(model, given, ["states"])["states"][stack_of(model)]
    states = torch.stack(states_of(model, given))
    mask = given["attention_mask"] if "attention_mask" in given else torch.ones(states.shape[1:3])
    expected = torch.stack([x[:, mask[i].bool()].mean(1) for i, x in enumerate(states.unbind(1))], 1)
    assert found["pooled"].dtype == found["tokens"].dtype == torch.float16
    torch.testing.assert_close(found["pooled"].float(), expected, rtol=2e-3, atol=2e-3)
    kept = torch.stack(vectors(model, given))
    torch.testing.assert_close(found["tokens"].float(), kept, rtol=2e-3, atol=2e-3)  # all, in order: they are few


@torch.no_grad()
def test_states_beyond_half_precision_are_kept_whole() -> None:
    model, given = tiny("image"), inputs("image")
    given["pixel_values"] = given["pixel_values"] * 1e7
    found: Any = observe(model, given, ["states", "drift"])
    assert found["states"]["body.stack"]["pooled"].dtype == torch.float32
    assert found["states"]["body.stack"]["pooled"].isfinite().all()
    assert found["drift"]["body.stack"]["input"][0] == pytest.approx(1.0, abs=1e-3)


def slopes(f: Any, x: Tensor, eps: float = 1e-6) -> Tensor:
    """The gradient of f at x by central differences, coordinate by coordinate."""
    out = torch.zeros_like(x)
    for i in range(x.numel()):
        shift = torch.zeros_like(x).view(-1)
        shift[i] = eps
        out.view(-1)[i] = (f(x + shift.view(x.shape)) - f(x - shift.view(x.shape))) / (2 * eps)
    return out


@pytest.mark.parametrize(
    ("kind", "scheme"), [("sequence", "lie"), ("causal", "lie"), ("image", "lie"), ("sequence", "reversible")]
)
def test_gradients_are_those_of_finite_differences(kind: str, scheme: str) -> None:
    """By the stack's input, without padding, and by a bias of the second layer; in float64."""
    model, given = tiny(kind, scheme).double(), {**inputs(kind), "labels": labels(kind)}
    given = {name: x.double() if x.is_floating_point() else x for name, x in given.items()}
    stack: Any = model.get_submodule(stack_of(model))
    figures: Any = observe(model, given, ["gradients"])["gradients"][stack_of(model)]
    bias = stack.layers[1]["F"].down.bias

    def by_input(shift: Tensor) -> Tensor:
        with stack.register_forward_pre_hook(lambda _, one: (one[0] + shift, *one[1:])):
            return model(**given).loss

    def by_bias(value: Tensor) -> Tensor:
        bias.copy_(value)
        return model(**given).loss

    stack.layers[1]["F"].down.weight.requires_grad_(False)  # so that the group is the bias alone
    alone: Any = observe(model, given, ["gradients"])["gradients"][stack_of(model)]
    with torch.no_grad():
        gradient = slopes(by_input, torch.zeros_like(states_of(model, given)[0]))
        real = given["attention_mask"].bool() if "attention_mask" in given else torch.ones(gradient.shape[:2]).bool()
        assert figures["x"][0] == pytest.approx(float(gradient[real].norm()), rel=1e-6)
        assert alone["F.down"][1] == pytest.approx(float(slopes(by_bias, bias.clone()).norm()), rel=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradients_of_all_states_and_weights_are_those_of_a_backward_pass(scheme: str) -> None:
    model, given = tiny("sequence", scheme), {**inputs("sequence"), "labels": labels("sequence")}
    figures: Any = observe(model, given, ["gradients"])["gradients"]["encoder.body.stack"]
    stack = model.encoder.body.stack
    assert not any(p.grad is not None for p in model.parameters())
    model(**given).loss.backward()
    for name in dict(stack.layers[0].named_parameters()):
        field, _, rest = name.partition(".")
        group = f"{field}.{rest.rpartition('.')[0]}"
        for number, layer in enumerate(stack.layers):
            members = [p.grad for key, p in layer.named_parameters() if key.startswith(f"{group}.")]
            expected = sum(float((g.double() ** 2).sum()) for g in members if g is not None) ** 0.5
            assert figures[group][number] == pytest.approx(expected, rel=1e-3), group
    x = figures["x"]
    assert figures["growth"] == pytest.approx([x[0] / x[1], x[1] / x[2]])
    assert figures["rate"] == (pytest.approx((x[0] / x[2]) ** 0.5),)


@pytest.mark.parametrize("name", [name for name in PROBES if name not in ("attention", "information")])
@pytest.mark.parametrize("kind", PADDED)
def test_what_stands_in_padding_changes_nothing(kind: str, name: str) -> None:
    """With other tokens at masked positions the figures stay: padding does not count, and nobody sees it."""
    model, given = tiny(kind), {**inputs(kind), "labels": labels(kind)}
    hidden = given["attention_mask"] == 0
    if given["labels"].ndim == 2 and kind != "translation":  # padding predicts nothing
        given["labels"] = given["labels"].masked_fill(hidden | hidden.roll(1, 1), -100)
    other = {**given, "input_ids": torch.where(hidden, 5, given["input_ids"])}
    before, after = (observe(model, one, [name])[name] for one in (given, other))
    assert before.keys() == after.keys()
    for stack, figures in before.items():
        for series, value in figures.items():
            torch.testing.assert_close(torch.as_tensor(value), torch.as_tensor(after[stack][series]), equal_nan=True)


def test_gradients_without_labels_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match='probe "gradients" differentiates the loss, and the batch has no labels'):
        observe(tiny("sequence"), inputs("sequence"), ["gradients"])


def test_a_frozen_embedding_is_no_obstacle() -> None:
    model, given = tiny("sequence"), {**inputs("sequence"), "labels": labels("sequence")}
    expected: Any = observe(model, given, ["gradients"])["gradients"]["encoder.body.stack"]
    model.encoder.embedding.requires_grad_(False)
    model.encoder.body.stack.layers[0].requires_grad_(False)
    found: Any = observe(model, given, ["gradients"])["gradients"]["encoder.body.stack"]
    assert found["x"] == pytest.approx(expected["x"])
    assert found["A.qkv"] == pytest.approx(expected["A.qkv"][1:])


@pytest.mark.parametrize("scheme", ["lie", "reversible"])
def test_all_probes_share_one_pass_each_way(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = tiny("translation", scheme), {**inputs("translation"), "labels": labels("translation")}
    calls = {"forward": 0, "backward": 0}
    backward = torch.autograd.grad

    def counted(*arguments: Any, **named: Any) -> Any:
        calls["backward"] += arguments[0] is losses[0]  # probes may differentiate layers as well
        return backward(*arguments, **named)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    losses: list[Tensor] = []
    model.register_forward_hook(lambda *_: calls.update(forward=calls["forward"] + 1))
    model.register_forward_hook(lambda *given: losses.append(given[-1].loss))
    found = observe(model, given, list(PROBES))
    assert calls == {"forward": 1, "backward": 1}
    assert all(by_stack.keys() == {"encoder.body.stack", "decoder.stack"} for by_stack in found.values())


@torch.no_grad()
def test_only_gradients_need_a_graph() -> None:
    model, given = tiny("image"), {**inputs("image"), "labels": labels("image")}
    seen: list[bool] = []
    model.register_forward_hook(lambda _, __, out: seen.append(out.logits.requires_grad))
    observe(model, given, ["drift", "states"])
    observe(model, given, ["drift", "gradients"])
    assert seen == [False, True]


@pytest.mark.parametrize("size", [1e12, 1e25, float("nan")])
def test_an_explosion_is_measured_and_not_an_error(size: float) -> None:
    """A network that has blown up is a result: every probe answers, with numbers that are not finite if need be."""
    model, given = tiny("sequence"), {**inputs("sequence"), "labels": labels("sequence")}
    with torch.no_grad():
        for layer in model.encoder.body.stack.layers:
            layer["F"].down.weight.mul_(size)
    found: Any = observe(model, given, list(PROBES))
    assert found.keys() == set(PROBES)
    lengths = found["state_norms"]["encoder.body.stack"]["x"]
    assert lengths[0] < 1e3
    assert not lengths[-1] < 1e11
    drift = found["drift"]["encoder.body.stack"]["input"]
    assert all(abs(value) <= 1.001 for value in drift) == (size == 1e12)  # above, layer norms overflow
