"""Two models beside each other: a model and itself do not differ at all, and what differs is what brute force finds."""

import math
from copy import deepcopy
from typing import Any

import pytest
import torch
from inspections import IDS, bart, text_losses, whole
from pretrained_folders import WORDS, bert, llama
from tiny import inputs, labels, tiny
from torch import Tensor
from torch.nn.functional import cosine_similarity, kl_div

from splitstep.opening import load
from splitstep.probes.similarity import linear_cka
from splitstep.studies.inspect.compare_models import (
    apart,
    divergence,
    kl_of_logits,
    layers_apart,
    layers_beside,
    swapped,
    turn,
)
from splitstep.studies.inspect.cuts import Passed

PADDED = {"input_ids": IDS, "attention_mask": (torch.arange(9) < torch.tensor([[9], [6], [8]])).long()}


def own(kind: str, scheme: str = "lie") -> tuple[Any, dict[str, Any]]:
    return tiny(kind, scheme), {**inputs(kind), "labels": labels(kind)}


@torch.no_grad()
def moved(model: Any, seed: int = 3, scale: float = 0.1) -> Any:
    """A copy with other weights in every layer, as fine-tuning leaves it."""
    other, generator = deepcopy(model), torch.Generator().manual_seed(seed)
    for weight in other.parameters():
        weight += scale * torch.randn(weight.shape, generator=generator)
    return other


def layers_in(model: Any) -> Any:
    return model.model.layers


MODELS: dict[str, Any] = {
    "llama": lambda: (llama(3), {"input_ids": IDS}),
    "padded llama": lambda: (llama(3), PADDED),
    "bert": lambda: (bert(), PADDED),
    "bart": lambda: (bart(2), {"input_ids": IDS, "decoder_input_ids": IDS.flip(1)}),
    "our own causal": lambda: own("causal", "macaron"),
    "our own reversible": lambda: own("causal", "reversible"),
    "our own classifier": lambda: own("sequence"),
    "our own translator": lambda: own("translation"),
    "our own images": lambda: own("image", "strang-midpoint"),
    "our own vectors": lambda: own("vectors"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_does_not_differ_from_itself(name: str) -> None:
    model, given = MODELS[name]()
    one, other = whole(model, given), whole(deepcopy(model), given)
    assert layers_apart(one, other) == ""
    for row, n in zip(layers_beside(one, other), real_tokens_of(one), strict=True):
        assert set(row["cosine distance"]) == set(row["relative distance"]) == {0.0}
        assert set(row["cka"]) == {1.0} if n > 3 else all(map(math.isnan, row["cka"]))
        assert [len(row[key]) for key in row] == [one.layers, one.layers, one.layers + 1]
    found, why = divergence(one, other)
    assert (found, why) == ([0.0] * 3, "") or "neither words nor classes" in why
    assert bool(why) == (name in ("bert", "our own vectors"))
    assert all(swapped(one, other, layer) == [0.0] * 3 for layer in range(one.layers))


def real_tokens_of(one: Passed) -> list[int]:
    mask = one.inputs.get("attention_mask")
    return [9] * 3 if mask is None or "decoder_input_ids" in one.inputs else mask.sum(1).tolist()


@torch.no_grad()
def states_by_hooks(model: Any, ids: Tensor) -> list[Tensor]:
    """The states before each layer and after the last of a Llama, of one text."""
    seen = list[Tensor]()
    hooks = [
        layer.register_forward_hook(lambda _, given, new: seen.extend((given[0][0], new[0])))
        for layer in layers_in(model)
    ]
    model(input_ids=ids[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    return [*seen[::2], seen[-1]]


def test_increments_and_states_are_those_of_the_modules() -> None:
    model, length = llama(3), 6
    tuned = moved(model)
    rows = layers_beside(whole(model, PADDED), whole(tuned, PADDED))
    x, y = (states_by_hooks(one, IDS[1, :length]) for one in (model, tuned))  # the text that is padded
    for layer in range(3):
        dx, dy = (states[layer + 1] - states[layer] for states in (x, y))
        angle = 1 - cosine_similarity(dx.double(), dy.double(), dim=-1).mean()
        far = ((dy - dx).norm(dim=-1) / dx.norm(dim=-1)).mean()
        assert rows[1]["cosine distance"][layer] == pytest.approx(float(angle), rel=1e-4)
        assert rows[1]["relative distance"][layer] == pytest.approx(float(far), rel=1e-4)
    expected = [float(linear_cka(a, b, debiased=True)) for a, b in zip(x, y, strict=True)]
    assert rows[1]["cka"] == pytest.approx(expected, abs=1e-5)
    assert min(expected) < 0.99


def test_directions_and_distances_in_closed_form() -> None:
    zero, one, other = torch.zeros(1, 2), torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    cases = [(one, one, 0.0, 0.0), (one, 2 * one, 0.0, 1.0), (one, other, 1.0, 5 / 3), (one, -one, 2.0, 2.0),
             (zero, zero, 0.0, 0.0), (one, zero, 1.0, 1.0), (zero, one, 1.0, math.inf)]  # fmt: skip
    for x, y, angle, far in cases:
        assert (float(turn(x, y)), float(apart(x, y))) == pytest.approx((angle, far))


def test_kl_of_two_choices_in_closed_form() -> None:
    p, q = torch.tensor([math.log(3.0), 0.0]), torch.tensor([0.0, math.log(4.0)])  # 3/4, 1/4 and 1/5, 4/5
    expected = 0.75 * math.log(0.75 / 0.2) + 0.25 * math.log(0.25 / 0.8)
    assert float(kl_of_logits(p, q)) == pytest.approx(expected, abs=1e-7)
    never = torch.tensor([0.0, -math.inf])
    assert float(kl_of_logits(never, p)) == pytest.approx(math.log(4 / 3), abs=1e-7)
    assert float(kl_of_logits(p, never)) == math.inf


@torch.no_grad()
def kl_by_torch(model: Any, other: Any, given: dict[str, Tensor]) -> Tensor:
    """By PyTorch, of each choice."""
    p, q = (one(**given).logits.double().log_softmax(-1) for one in (model, other))
    return kl_div(q, p, log_target=True, reduction="none").sum(-1)


def test_kl_of_predictions_is_that_of_pytorch_without_padding() -> None:
    model = llama(2)
    tuned = moved(model)
    found, why = divergence(whole(model, PADDED), whole(tuned, PADDED))
    expected = kl_by_torch(model, tuned, PADDED)
    lengths = PADDED["attention_mask"].sum(1).tolist()
    assert why == ""
    assert found == pytest.approx([float(row[:n].mean()) for row, n in zip(expected, lengths, strict=True)], rel=1e-5)
    assert min(found) > 1e-3


@pytest.mark.parametrize(("kind", "scheme"), [("causal", "macaron"), ("sequence", "lie"), ("image", "strang-midpoint")])
def test_kl_of_our_own_models_is_that_of_their_logits(kind: str, scheme: str) -> None:
    model, given = own(kind, scheme)
    tuned = moved(model, scale=0.05)
    found, _ = divergence(whole(model, given), whole(tuned, given))
    expected = kl_by_torch(model, tuned, inputs(kind))
    if kind == "causal":
        real = given["attention_mask"].bool()
        expected = torch.stack([row[mask].mean() for row, mask in zip(expected, real, strict=True)])
    assert found == pytest.approx(expected.tolist(), rel=1e-4)


def copied(model: Any, other: Any, layer: int) -> Any:
    """The first model with the weights of one layer of the other."""
    found = deepcopy(model)
    layers_in(found)[layer].load_state_dict(layers_in(other)[layer].state_dict())
    return found


def test_a_layer_inside_the_other_model_is_one_whose_weights_are_copied() -> None:
    model = llama(3)
    tuned = moved(model)
    one, other, before = whole(model), whole(tuned), text_losses(model)
    for layer in range(3):
        after = text_losses(copied(model, tuned, layer))
        expected = [a - b for a, b in zip(after, before, strict=True)]
        assert swapped(one, other, layer) == pytest.approx(expected, abs=1e-5)
        assert max(map(abs, expected)) > 1e-3


@pytest.mark.parametrize("scheme", ["macaron", "reversible"])
def test_so_is_a_layer_of_our_own_models(scheme: str) -> None:
    model, given = own("causal", scheme)
    given["attention_mask"] = torch.ones_like(given["attention_mask"])
    tuned = moved(model, scale=0.05)
    one, other = whole(model, given), whole(tuned, given)
    for layer in range(one.layers):
        exchanged = deepcopy(model)
        stacks = [flow.stacks[flow.main] for flow in (load(exchanged), load(tuned))]
        stacks[0].layers[layer].load_state_dict(stacks[1].layers[layer].state_dict())
        losses = [passed.losses or [] for passed in (whole(exchanged, given), one)]
        expected = [a - b for a, b in zip(*losses, strict=True)]
        assert swapped(one, other, layer) == pytest.approx(expected, abs=1e-5)
        assert max(map(abs, expected)) > 1e-3


def test_of_an_encoder_it_is_the_share_of_the_output_that_changes() -> None:
    model = bert()
    tuned = moved(model)
    exchanged = deepcopy(model)
    exchanged.encoder.layer[1].load_state_dict(tuned.encoder.layer[1].state_dict())
    given = {"input_ids": IDS}
    with torch.no_grad():
        new, old = (one.eval()(**given)[0] for one in (exchanged, model))
    expected = ((new - old).flatten(1).norm(dim=1) / old.flatten(1).norm(dim=1)).tolist()
    assert swapped(whole(model), whole(tuned), 1) == pytest.approx(expected, rel=1e-4)


def test_models_that_differ_in_one_layer_differ_there() -> None:
    """Planted: layer 1 alone is other. Before it nothing differs, its swap is all that differs, the others' nothing."""
    model = llama(3)
    planted = copied(model, moved(model), 1)
    one, other = whole(model), whole(planted)
    for row in layers_beside(one, other):
        assert row["relative distance"][0] == row["cosine distance"][0] == 0.0
        assert row["cka"][:2] == (1.0, 1.0)
        assert min(row["relative distance"][1:]) > 1e-3
        assert max(row["cka"][2:]) < 1.0
    assert swapped(one, other, 0) == swapped(one, other, 2) == [0.0] * 3
    expected = [a - b for a, b in zip(text_losses(planted), text_losses(model), strict=True)]
    assert swapped(one, other, 1) == pytest.approx(expected, abs=1e-5)


def test_rows_are_of_texts_alone() -> None:
    model = llama(2)
    tuned = moved(model)
    one, other = whole(model), whole(tuned)
    rows, (kl, _), swaps = layers_beside(one, other), divergence(one, other), swapped(one, other, 0)
    for i in range(3):
        first, second = (whole(x, {"input_ids": IDS[i : i + 1]}) for x in (model, tuned))
        [row] = layers_beside(first, second)
        for key, values in row.items():
            assert rows[i][key] == pytest.approx(values, abs=1e-5)
        assert [kl[i]] == pytest.approx(divergence(first, second)[0], rel=1e-4)
        assert [swaps[i]] == pytest.approx(swapped(first, second, 0), abs=1e-5)


def test_a_text_of_three_tokens_has_no_cka() -> None:
    model = llama(2)
    short = {"input_ids": IDS[:1, :3]}
    [row] = layers_beside(whole(model, short), whole(moved(model), short))
    assert all(map(math.isnan, row["cka"]))
    assert all(map(math.isfinite, row["relative distance"]))


def test_what_does_not_apply_is_said_in_one_line() -> None:
    one, shallow, flipped = whole(llama(3)), whole(llama(2)), whole(llama(3), {"input_ids": IDS.flip(1)})
    rest = "increments, CKA and layers of one inside the other do not apply"
    assert layers_apart(one, shallow) == f"the models have 3 layers of width 16 and 2 layers of width 16: {rest}"
    assert divergence(one, shallow)[1] == ""
    other = "the tokenizers make other tokens of these texts: nothing applies that is by token"
    assert layers_apart(one, flipped) == other
    assert divergence(one, flipped) == ([], other)
    wide = llama(3)
    wide.resize_token_embeddings(WORDS + 7, mean_resizing=False)
    assert (
        divergence(one, whole(wide))[1] == f"the models choose among {WORDS} and among {WORDS + 7}: KL of "
        "predictions does not apply"
    )
    assert layers_apart(one, whole(wide)) == ""
    halves, whole_states = (whole(*own("causal", scheme)) for scheme in ("reversible", "lie"))
    assert layers_apart(halves, whole_states).endswith(f"has states of two halves: {rest}")
