"""Functions of Jacobians against closed forms and dense linear algebra in float64."""

from math import log

import pytest
import torch
from torch import Tensor

from splitstep.probes.jacobians import lyapunov_spectrum
from splitstep.probes.low_rank import leading_singular
from splitstep.probes.spectra import (
    asymmetry,
    complex_share,
    effective_rank,
    eigenvalues,
    henrici_departure,
    participation_ratio,
    real_schur,
    singular_values,
)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(angle: float) -> Tensor:
    turn = torch.tensor(angle, dtype=torch.float64)
    return torch.stack((torch.stack((turn.cos(), -turn.sin())), torch.stack((turn.sin(), turn.cos()))))


def ordered(eigen: Tensor) -> Tensor:
    return torch.tensor(sorted(eigen.tolist(), key=lambda z: (round(z.real, 9), z.imag)), dtype=torch.complex128)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_equal_singular_values_count_one_by_one(rank: int) -> None:
    q = torch.linalg.qr(drawn(9, 9)).Q
    s = singular_values(3.0 * q[:, :rank] @ q[:rank])
    assert float(effective_rank(s)) == pytest.approx(rank)
    assert float(participation_ratio(s)) == pytest.approx(rank)


def test_ranks_of_unequal_singular_values_follow_their_formulas() -> None:
    """p = 3/4 and 1/4: exp(entropy) = 4 / 3^(3/4); squares 9 and 1: (9 + 1)^2 / (81 + 1)."""
    s = torch.tensor([3.0, 1.0])
    assert float(effective_rank(s)) == pytest.approx(4 / 3**0.75)
    assert float(participation_ratio(s)) == pytest.approx(100 / 82)


def test_normal_matrices_have_no_departure_and_nilpotent_ones_a_whole_one() -> None:
    nilpotent = torch.diag(torch.ones(4, dtype=torch.float64), 1)
    normal = torch.block_diag(rotation(0.3), 2 * rotation(1.0), torch.eye(1, dtype=torch.float64))
    both = torch.stack((nilpotent, normal))
    departure = henrici_departure(both, eigenvalues(both))
    assert departure.tolist() == pytest.approx([1.0, 0.0], abs=1e-7)
    triangular = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert float(henrici_departure(triangular, eigenvalues(triangular))) == pytest.approx((4 / 6) ** 0.5)
    assert complex_share(eigenvalues(both)).tolist() == [0.0, 0.8]


def test_asymmetry_is_0_if_symmetric_and_2_if_antisymmetric() -> None:
    a = drawn(6, 6)
    assert asymmetry(torch.stack((a + a.T, a - a.T))).tolist() == pytest.approx([0.0, 2.0])


def test_a_matrix_that_is_not_finite_has_no_spectrum_and_is_no_error() -> None:
    broken = torch.stack((torch.eye(3), torch.full((3, 3), torch.inf)))
    assert singular_values(broken)[0].tolist() == [1.0] * 3
    assert singular_values(broken)[1].isnan().all()
    assert complex_share(eigenvalues(broken)).isnan().tolist() == [False, True]
    assert real_schur(broken[1]).normal_form.isnan().all()


@pytest.mark.parametrize("n", [1, 2, 5, 12, 33])
def test_without_nonnormality_a_matrix_is_normal_and_keeps_its_eigenvalues(n: int) -> None:
    """So does its Schur form."""
    a = drawn(n, n, seed=n)
    schur, b = real_schur(a), real_schur(a).normal_form
    torch.testing.assert_close(ordered(schur.eigenvalues), ordered(torch.linalg.eigvals(a)))
    torch.testing.assert_close(b @ b.T, b.T @ b)
    torch.testing.assert_close(ordered(torch.linalg.eigvals(b)), ordered(torch.linalg.eigvals(a)))
    torch.testing.assert_close(singular_values(b), torch.linalg.eigvals(a).abs().sort(descending=True).values)


def test_a_normal_matrix_is_its_own_normal_form() -> None:
    q = torch.linalg.qr(drawn(5, 5)).Q
    a = q @ torch.block_diag(rotation(0.3), 2 * rotation(2.0), torch.eye(1, dtype=torch.float64)) @ q.T
    torch.testing.assert_close(real_schur(a).normal_form, a)


def test_lyapunov_exponents_of_a_linear_system_are_the_real_parts_of_its_eigenvalues() -> None:
    """x' = M x over a time of 400 in steps of .1, M not normal; what is left falls as 1 / time."""
    p = drawn(4, 4) + 3 * torch.eye(4, dtype=torch.float64)
    m = p @ torch.block_diag(torch.diag(torch.tensor([0.9, -1.2])).double(), -0.3 * torch.eye(2) + rotation(1.57) * 2)
    m = m @ p.inverse()
    wanted = torch.linalg.eigvals(m).real.sort(descending=True).values
    found = lyapunov_spectrum([torch.linalg.matrix_exp(0.1 * m)] * 4000, 400.0)
    torch.testing.assert_close(found, wanted, atol=1e-2, rtol=0.0)


def test_lyapunov_exponents_of_one_step_add_up_to_the_log_of_the_volume() -> None:
    many = [drawn(6, 6, seed=i) for i in range(5)]
    volume = sum(float(torch.linalg.slogdet(one).logabsdet) for one in many)
    assert float(lyapunov_spectrum(many, 2.5).sum()) == pytest.approx(volume / 2.5)
    alone = lyapunov_spectrum([torch.diag(torch.tensor([2.0, 2.0]))], 1.0, count=1)
    assert alone.tolist() == pytest.approx([log(2.0)])


def test_no_jacobians_have_no_exponents() -> None:
    with pytest.raises(ValueError, match="at least one"):
        lyapunov_spectrum([], 1.0)


@pytest.mark.parametrize("shape", [(60, 60), (80, 40)])
def test_leading_singular_values_are_those_of_the_dense_matrix(shape: tuple[int, int]) -> None:
    """Of the identity plus a random matrix, whose singular values fall slowly: within 1%."""
    a = drawn(*shape) * 0.3 + torch.eye(*shape)
    found = leading_singular(lambda v: v @ a.T, lambda u: u @ a, shape[1], 5, like=a)
    dense = torch.linalg.svdvals(a)[:5]
    torch.testing.assert_close(found.s, dense, rtol=1e-2, atol=0.0)
    assert (found.s <= dense + 1e-9).all()


def test_leading_vectors_are_those_of_a_low_rank_matrix() -> None:
    a = drawn(30, 4) @ drawn(4, 20, seed=1)
    s, v = leading_singular(lambda x: x @ a.T, lambda x: x @ a, 20, 4, like=a)
    torch.testing.assert_close(a @ v.T @ v, a)
    torch.testing.assert_close(v @ v.T, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(torch.linalg.vector_norm(a @ v.T, dim=0), s)
