"""Comparisons of two networks' states and attention are those of their definitions, written out."""

from math import log

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from torch import Tensor

from splitstep.probes.similarity import (
    attention_cosine,
    compare_attention,
    jensen_shannon,
    kl_divergence,
    linear_cka,
    mean_cosine,
)


def states(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gram(x: Tensor) -> np.ndarray:
    """Inner products of all pairs of rows, one by one."""
    return np.array([[float((a * b).sum()) for b in x] for a in x])


def hsic(k: np.ndarray, m: np.ndarray) -> float:
    """tr(K H M H) with the centring matrix H, written out."""
    n = len(k)
    h = np.eye(n) - 1 / n
    return float(np.trace(k @ h @ m @ h))


def unbiased_hsic(k: np.ndarray, m: np.ndarray) -> float:
    """Song et al. (2012), equation 5, without its constant factor: K and M have zeros on the diagonal."""
    n, k, m = len(k), k - np.diag(np.diag(k)), m - np.diag(np.diag(m))
    one = np.ones(n)
    middle = (one @ k @ one) * (one @ m @ one) / ((n - 1) * (n - 2))
    return float(np.trace(k @ m) + middle - 2 / (n - 2) * one @ k @ m @ one)


@pytest.mark.parametrize(("rows", "p", "q"), [(20, 5, 7), (6, 12, 9), (10, 10, 10)])
def test_cka_is_that_of_gram_matrices(rows: int, p: int, q: int) -> None:
    x, y = states(rows, p), states(rows, q, seed=1) + 3
    y[:, :3] += 2 * x[:, :3]
    k, m = gram(x), gram(y)
    expected = hsic(k, m) / (hsic(k, k) * hsic(m, m)) ** 0.5
    assert float(linear_cka(x, y)) == pytest.approx(expected, rel=1e-9)
    k, m = gram(x - x.mean(0)), gram(y - y.mean(0))
    expected = unbiased_hsic(k, m) / (unbiased_hsic(k, k) * unbiased_hsic(m, m)) ** 0.5
    assert float(linear_cka(x, y, debiased=True)) == pytest.approx(expected, rel=1e-9)


def test_cka_of_unequal_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="there are 8 and 7"):
        linear_cka(torch.randn(8, 3), torch.randn(7, 3))


def test_cka_ignores_rotation_scale_and_shift() -> None:
    x, turn = states(30, 6), torch.linalg.qr(states(6, 6, seed=2)).Q
    assert float(linear_cka(x, 1e6 * x @ turn + 7)) == pytest.approx(1)
    assert float(linear_cka(x, 1e6 * x @ turn + 7, debiased=True)) == pytest.approx(1)
    assert float(linear_cka(1e30 * x.float(), x.float())) == pytest.approx(1, abs=1e-5)


def test_cka_of_strangers_is_large_unless_it_is_debiased() -> None:
    x, y = states(40, 30, 20), states(40, 30, 20, seed=1)
    assert float(linear_cka(x, y).mean()) > 0.3
    assert abs(float(linear_cka(x, y, debiased=True).mean())) < 0.03
    with pytest.raises(ValueError, match="debiased CKA needs at least 4 rows, and there are 3"):
        linear_cka(x[0, :3], y[0, :3], debiased=True)


def test_layers_are_compared_at_once() -> None:
    x, y = states(3, 20, 5), states(3, 20, 5, seed=1)
    for f in (linear_cka, mean_cosine):
        torch.testing.assert_close(f(x, y), torch.stack([f(a, b) for a, b in zip(x, y, strict=True)]))


def test_the_mean_cosine_is_over_rows() -> None:
    x, y = states(9, 4), states(9, 4, seed=1)
    each = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(x, y, strict=True)]
    assert float(mean_cosine(x, y)) == pytest.approx(np.mean(each))


def test_divergences_are_those_of_scipy() -> None:
    p, q = (3 * states(5, 8, seed=s) for s in (0, 1))
    p, q = p.softmax(-1), q.softmax(-1)
    for i in range(5):
        a, b = p[i].numpy(), q[i].numpy()
        assert float(kl_divergence(p, q)[i]) == pytest.approx(float(entropy(a, b)))
        assert float(jensen_shannon(p, q)[i]) == pytest.approx(float(jensenshannon(a, b)) ** 2)
        assert float(attention_cosine(p, q)[i]) == pytest.approx(float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))))


def test_weights_that_are_zero_are_no_obstacle() -> None:
    """A causal mask, and weights that float16 rounds to zero."""
    p, q = torch.eye(3), torch.eye(3).roll(1, 0)
    assert kl_divergence(p, p).tolist() == [0, 0, 0]
    assert kl_divergence(p, q).tolist() == pytest.approx([-log(1e-7)] * 3)
    assert jensen_shannon(p, q).tolist() == pytest.approx([log(2)] * 3)
    assert attention_cosine(p, q).tolist() == [0, 0, 0]


def test_attention_is_compared_by_layer_and_head_without_padding() -> None:
    p, q = (states(2, 3, 4, 5, 6, seed=s).softmax(-1) for s in (0, 1))
    real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    found = compare_attention(p, q, real)
    assert found.keys() == {"kl", "jensen_shannon", "cosine"}
    for layer in range(2):
        for head in range(4):
            expected = float(kl_divergence(p[layer, :, head][real], q[layer, :, head][real]).mean())
            assert float(found["kl"][layer, head]) == pytest.approx(expected)
    torch.testing.assert_close(compare_attention(p, q)["cosine"], attention_cosine(p, q).mean((1, 3)))
    with pytest.raises(ValueError, match="cannot be compared"):
        compare_attention(p, q[:1])
