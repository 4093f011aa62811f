"""Entropies and kept weights of attention are those that the models return."""

from typing import Any

import pytest
import torch
from tiny import inputs, labels, tiny, tokens

from splitstep.probes import observe

FIRST = {"lie": 1, "strang-midpoint": 2, "parallel": 1, "lie-postnorm": 1}


def found_in(model: Any, given: Any) -> Any:
    return observe(model, given, ["attention"])["attention"]


@pytest.mark.parametrize("kind", ["sequence", "causal", "image"])
@pytest.mark.parametrize("scheme", FIRST)
@torch.no_grad()
def test_entropies_are_those_of_the_weights_that_models_return(kind: str, scheme: str) -> None:
    """By head and layer, over real queries. A midpoint part has two stages, of which the first counts."""
    model, given = tiny(kind, scheme), inputs(kind)
    [figures] = found_in(model, given).values()
    weights = model(**given, output_attentions=True).attentions[:: FIRST[scheme]]
    assert len(weights) == 2
    real = given["attention_mask"].bool() if "attention_mask" in given else torch.ones(3, weights[0].shape[2]).bool()
    for head in range(4):
        for layer, w in enumerate(weights):
            rows = w[:, head][real].double()
            entropy = -(rows * rows.clamp(min=1e-300).log()).sum(-1).mean()
            assert figures[f"A head {head}"][layer] == pytest.approx(float(entropy), rel=1e-4)
    heads = torch.tensor([figures[f"A head {head}"] for head in range(4)])
    assert figures["A"] == pytest.approx(heads.mean(0).tolist(), rel=1e-5)
    assert figures["A weights"].dtype == torch.float16
    torch.testing.assert_close(figures["A weights"].float(), torch.stack(weights), rtol=1e-3, atol=1e-4)
    assert torch.equal(figures["A queries"], real)


@pytest.mark.parametrize("kind", ["sequence", "causal"])
@torch.no_grad()
def test_attention_on_the_first_token_stands_beside_uniform_attention(kind: str) -> None:
    """Token by token: the first real token, and each later one with the tokens that it may look at."""
    model, given = tiny(kind), inputs(kind)
    [figures] = found_in(model, given).values()
    real = given["attention_mask"].bool()
    for layer, w in enumerate(model(**given, output_attentions=True).attentions):
        found, alike = [], []
        for i in range(3):
            [first, *later] = real[i].nonzero().flatten().tolist()
            shown = {j: sum(first <= k <= j for k in [first, *later]) for j in later}
            found.append(float(w[i][:, later, first].double().mean()))
            alike.append(sum(1 / (shown[j] if kind == "causal" else 1 + len(later)) for j in later) / len(later))
        assert figures["first token"][layer] == pytest.approx(sum(found) / 3, rel=1e-5)
        assert figures["uniform"][layer] == pytest.approx(sum(alike) / 3, rel=1e-9)


@torch.no_grad()
def test_a_decoder_has_both_kinds() -> None:
    model, given = tiny("translation"), {**inputs("translation"), "labels": labels("translation")}
    found, out = found_in(model, given), model(**given, output_attentions=True)
    assert found["encoder.body.stack"].keys() & {"A", "C"} == {"A"}
    for name, weights in (("A", out.decoder_attentions), ("C", out.cross_attentions)):
        kept = found["decoder.stack"][f"{name} weights"].float()
        torch.testing.assert_close(kept, torch.stack(weights), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("scheme", "parts"), [("A/2 F A/2", 2), ("reversible", 3), ("1/2(A F) + 1/2(F A)", 2)])
@torch.no_grad()
def test_parts_and_branches_of_a_layer_are_averaged(scheme: str, parts: int) -> None:
    model, given = tiny("sequence", scheme), inputs("sequence")
    [figures] = found_in(model, given).values()
    weights = model(**given, output_attentions=True).attentions
    assert len(weights) == 2 * parts
    real = given["attention_mask"].bool()
    entropies = torch.stack([torch.special.entr(w).sum(-1).transpose(1, 2)[real].mean() for w in weights])
    assert figures["A"] == pytest.approx(entropies.view(2, parts).mean(1).tolist(), rel=1e-4)
    torch.testing.assert_close(figures["A weights"].float(), torch.stack(weights[::parts]), rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_what_is_kept_does_not_grow_with_the_batch_or_the_text() -> None:
    model = tiny("sequence", max_positions=128)
    given = {"input_ids": tokens(rows=20, length=100)}
    [figures] = found_in(model, given).values()
    [first] = found_in(model, {"input_ids": given["input_ids"][:16]}).values()
    assert figures["A"] == pytest.approx(first["A"])  # the first sixteen examples are measured
    assert figures["A weights"].shape == (2, 8, 4, 64, 64)
    torch.testing.assert_close(figures["A weights"].float().sum(-1), torch.ones(2, 8, 4, 64), rtol=0, atol=5e-3)
    whole = torch.stack(model(**given, output_attentions=True).attentions)[:, :8, :, :64, :64]
    expected = whole / whole.sum(-1, keepdim=True)
    torch.testing.assert_close(figures["A weights"].float(), expected, rtol=2e-3, atol=1e-4)
