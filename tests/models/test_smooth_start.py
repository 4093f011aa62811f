"""Initial weights that are smooth in depth."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from splitstep.models import KINDS

SHAPE: dict[str, Any] = dict(width=32, heads=4, ffn=48, vocab_size=50, max_positions=8, init_modes=3)


def build(layers: int, seed: int = 0, kind: str = "causal", **more: Any) -> Any:
    torch.manual_seed(seed)
    return KINDS[kind].model(KINDS[kind].config(**{**SHAPE, "layers": layers, "step": 6 / layers, **more}))


def up(model: Any) -> Tensor:
    return torch.stack([layer["F"].up.weight for layer in model.body.stack.layers]).detach()


def test_networks_of_all_depths_share_their_start_at_equal_times() -> None:
    coarse, fine = build(3), build(9)  # the middles of the 3 layers are middles of every third of the 9
    assert torch.equal(up(coarse), up(fine)[1::3])
    ours, theirs = coarse.state_dict(), fine.state_dict()
    outside = [name for name in ours if ".stack.layers." not in name]
    assert len(outside) >= 4
    assert all(torch.equal(ours[name], theirs[name]) for name in outside)


def test_weights_are_smooth_functions_of_depth() -> None:
    def roughness(layers: int) -> float:
        w = up(build(layers))
        return float(w.diff(dim=0).norm() / w.norm())

    assert roughness(16) / roughness(32) == pytest.approx(2, rel=0.1)
    assert roughness(32) < 0.15
    plain = up(build(16, init_modes=0))
    assert float(plain.diff(dim=0).norm() / plain.norm()) == pytest.approx(2**0.5, rel=0.05)


@pytest.mark.parametrize("init", ["normal", "xavier"])
def test_every_layer_has_the_variance_of_the_usual_initialisation(init: str) -> None:
    smooth, plain = up(build(6, init=init)), up(build(6, init=init, init_modes=0))
    for layer in smooth:
        assert float(layer.std()) == pytest.approx(float(plain.std()), rel=0.05)


def test_another_seed_draws_other_weights_and_the_generator_goes_on() -> None:
    assert torch.equal(up(build(3, 1)), up(build(3, 1)))
    assert not torch.equal(up(build(3, 0)), up(build(3, 1)))
    build(3, 1)
    assert torch.initial_seed() == 1


def test_tied_embeddings_are_drawn_as_embeddings() -> None:
    model = build(2, init="xavier")
    assert model.head.weight is model.embedding.tokens.weight
    assert float(model.head.weight.detach().std()) == pytest.approx(32**-0.5, rel=0.05)


def test_biases_and_norms_start_as_usual(tmp_path: Any) -> None:
    model = build(2)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            assert torch.equal(module.weight, torch.ones_like(module.weight))
        if isinstance(module, nn.Linear) and module.bias is not None:
            assert not module.bias.any()
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert torch.equal(up(again), up(model))
