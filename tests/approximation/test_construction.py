"""Networks that are built reach their targets, and are ordinary models of the package."""

import re
from functools import partial
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

import splitstep as ss
from splitstep.approximation import TARGETS, approximate, build, read_target
from splitstep.approximation.ridges import RidgeSum, orbits, primitive


def test_the_maximum_of_two_needs_two_units_and_is_exact() -> None:
    built = approximate("max", tokens=2, eps=0.1)
    assert built.units == 2
    x = np.random.default_rng(0).random((1000, 2, 1))
    np.testing.assert_allclose(built(x), np.broadcast_to(x.max(1, keepdims=True), x.shape), atol=1e-14)
    assert approximate("max", tokens=2, dim=2, eps=0.2).units == 4  # two for each coordinate, shared by the positions


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_the_shape_and_the_constant_that_it_claims(name: str) -> None:
    for tokens, dim in ((2, 1), (3, 1), (2, 2)):
        read_target(name, TARGETS[name].map, tokens, dim, TARGETS[name].lipschitz)


def test_every_position_computes_its_own_function() -> None:
    """Against the sums of ridge functions themselves, which the network must reproduce to rounding."""
    rng = np.random.default_rng(1)
    numbers = partial(rng.normal, size=5)
    functions = [
        RidgeSum(rng.normal(), rng.normal(size=6), rng.integers(-2, 3, (5, 6)) * 1.0, numbers(), numbers())
        for _ in range(6)
    ]
    model, x = build(functions, tokens=3, dim=2), rng.random((200, 6))
    with torch.no_grad():
        found = model(torch.from_numpy(x.reshape(-1, 3, 2))).logits.flatten(1).numpy()
    np.testing.assert_allclose(found, np.stack([f(x) for f in functions], 1), atol=1e-12)


def test_directions_are_one_of_each_line_and_orbits_share_them_out() -> None:
    found = primitive(2, 2)
    assert len(found) == 8
    lines = {tuple(sign * np.array(k) / np.abs(k).max()) for k in found for sign in (1, -1)}
    assert len(lines) == 16
    everything = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    together = orbits(3, 2, everything)
    covered = {k for orbit in together for k in orbit} | {tuple(-c for c in k) for orbit in together for k in orbit}
    assert covered == {k for k in product(range(-2, 3), repeat=3) if any(k) and np.gcd.reduce(k) == 1}


def test_weights_that_are_stored_compute_the_same_bits(tmp_path: Path) -> None:
    built = approximate("convolution", tokens=2, eps=0.1)
    built.model.save_pretrained(tmp_path / "model")
    again = AutoModel.from_pretrained(tmp_path / "model")
    assert (type(again), again.dtype) == (ss.SplitstepVectorsModel, torch.float64)
    assert all(torch.equal(w, again.state_dict()[name]) for name, w in built.model.state_dict().items())
    x = np.random.default_rng(2).random((64, 2, 1))
    with torch.no_grad():
        assert np.array_equal(again.eval()(torch.from_numpy(x)).logits.numpy(), built(x))


# Without positions: equivariant maps, and a refusal of others with a proof


@pytest.mark.parametrize(("name", "dim"), [("max", 1), ("polynomial", 1), ("convolution", 1), ("max", 2)])
def test_equivariant_targets_are_certified_and_exchange_with_their_tokens(name: str, dim: int) -> None:
    built = approximate(name, tokens=2, dim=dim, eps=0.05 if dim == 1 else 0.2, positions="none")
    assert built.model.positions is None
    assert built.certificate.met
    x = np.random.default_rng(0).random((1000, 2, dim))
    found = built(x)
    assert np.abs(found - built.target.map(x)).max() <= built.certificate.error
    np.testing.assert_allclose(built(x[:, ::-1]), found[:, ::-1], atol=1e-13)


def test_the_certificate_says_what_heads_and_units_do_with_and_without_positions() -> None:
    for positions, gathering, selection in (
        ("learned", "attention copies each token;", "units of other positions are off:"),
        ("none", "attention computes the mean of the tokens;", "no unit has to be off: without positions every"),
    ):
        said = {one.name: one.text for one in approximate("max", 2, eps=0.1, positions=positions).certificate.steps}
        assert said["gathering"].startswith(gathering)
        assert said["selection"].startswith(selection)


def test_a_target_that_is_not_equivariant_is_refused_with_two_inputs() -> None:
    for tokens in (2, 3):
        with pytest.raises(
            ValueError, match=r"^The target 'sort' is not equivariant.* exchanged, \[.*\], have"
        ) as error:
            approximate("sort", tokens=tokens, eps=0.1, positions="none")
        first, second = re.findall(r"(\[[^]]*\]) has|exchanged, (\[[^]]*\])", str(error.value))
        assert first[0] != second[1]  # two different inputs
    with pytest.raises(ValueError, match=r"^The target 'convolution' is not equivariant"):
        approximate("convolution", tokens=3, eps=0.1, positions="none")  # it is for two tokens
    with pytest.raises(ValueError, match=r"2 tokens, or of 3 of dimension 1, can be built; got 4 of dimension 1"):
        approximate("max", tokens=4, eps=0.1, positions="none")


@pytest.mark.parametrize("name", ["max", "polynomial"])
def test_three_tokens_have_a_sampled_error_that_is_called_so(name: str) -> None:
    built = approximate(name, tokens=3, eps=0.2, positions="none")
    found = built.certificate
    assert built.model.positions is None
    assert found.error is None
    assert not found.met
    assert found.sentence.endswith("nothing is proved for three tokens without positions.")
    x = np.random.default_rng(0).random((1000, 3, 1))
    y = built(x)
    assert np.abs(y - built.target.map(x)).max() <= 1.05 * found.sampled <= 0.2
    for order in permutations(range(3)):
        np.testing.assert_allclose(built(x[:, order]), y[:, order], atol=1e-12)
