"""Without positions a network reaches equivariant maps, and others are refused with a proof."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest

from splitstep.approximation import approximate


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
    said = dict[str, dict[str, str]]()
    for positions in ("learned", "none"):
        built = approximate("max", tokens=2, eps=0.1, positions=positions)
        said[positions] = {step.name: step.text for step in built.certificate.steps}
    assert said["learned"]["gathering"].startswith("attention copies each token;")
    assert said["learned"]["selection"].startswith("units of other positions are off:")
    assert said["none"]["gathering"].startswith("attention computes the mean of the tokens;")
    assert said["none"]["selection"] == "no unit has to be off: without positions every token has the same units"


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
