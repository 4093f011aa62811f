"""Without positions a network reaches equivariant maps, and others are refused with a proof."""

from __future__ import annotations

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


def test_a_target_that_is_not_equivariant_is_refused_with_two_inputs() -> None:
    with pytest.raises(ValueError, match=r"^The target 'sort' is not equivariant.* its tokens exchanged, \[.*\], have"):
        approximate("sort", tokens=2, eps=0.1, positions="none")
    with pytest.raises(ValueError, match=r"only 2 tokens can be built; got 3"):
        approximate("max", tokens=3, eps=0.1, positions="none")
