"""What the eigenvalues and singular values of a Jacobian say, and what is left without non-normality: in float64."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


def spread_of(weights: Tensor) -> tuple[Tensor, Tensor]:
    """exp(entropy) and participation ratio of weights [.., n] >= 0; not a number if all of them are 0."""
    p = weights / weights.sum(-1, keepdim=True)
    return torch.special.entr(p).sum(-1).exp(), 1 / p.square().sum(-1)


def effective_rank(singular: Tensor) -> Tensor:
    """exp(-sum_i p_i log p_i) with p_i = s_i / sum_j s_j of singular values [.., n]: n if all are equal, 1 if only
    one is not 0 (Roy and Vetterli, 2007)."""
    return spread_of(singular.double())[0]


def participation_ratio(singular: Tensor) -> Tensor:
    """(sum_i s_i^2)^2 / sum_i s_i^4 of singular values [.., n]: how many directions share the variance s^2."""
    return spread_of(singular.double().square())[1]


def singular_values(matrix: Tensor) -> Tensor:
    """The singular values of matrices [.., m, n], largest first; not a number for those that are not finite."""
    return answered(torch.linalg.svdvals, matrix.double()).to(torch.float64)


def eigenvalues(matrix: Tensor) -> Tensor:
    """The eigenvalues of matrices [.., n, n], complex; not a number for those that are not finite."""
    return answered(torch.linalg.eigvals, matrix.double())


def answered(function: Callable[[Tensor], Tensor], matrix: Tensor) -> Tensor:
    """function(matrix), with nan where a matrix is not finite: LAPACK refuses those."""
    known = matrix.isfinite().all((-2, -1))
    found = function(torch.where(known[..., None, None], matrix, 0))
    return torch.where(known[..., None], found, torch.nan)


def henrici_departure(matrix: Tensor, eigen: Tensor) -> Tensor:
    """sqrt(|J|_F^2 - sum_i |lambda_i|^2) / |J|_F, between 0 (J is normal) and 1 (J is nilpotent); `eigen` are the
    eigenvalues lambda of J [.., n, n]."""
    total = matrix.double().square().sum((-2, -1))
    normal = eigen.abs().square().sum(-1)
    return ((total - normal).clamp(min=0) / total).sqrt()


def asymmetry(matrix: Tensor) -> Tensor:
    """|J - J^T|_F / |J|_F of matrices [.., n, n]: 0 if symmetric, 2 if antisymmetric, about sqrt(2) if random."""
    wide = matrix.double()
    return torch.linalg.matrix_norm(wide - wide.mT) / torch.linalg.matrix_norm(wide)


def complex_share(eigen: Tensor) -> Tensor:
    """The share of eigenvalues [.., n] that are complex: |Im lambda| > 1e-9 max |lambda|."""
    size = eigen.abs().amax(-1, keepdim=True)
    share = (eigen.imag.abs() > 1e-9 * size).double().mean(-1)
    return torch.where(eigen.isfinite().all(-1), share, torch.nan)


class RealSchur(NamedTuple):
    """J = Q T Q^T with Q orthogonal and T upper triangular but for 2 x 2 blocks [[a, b], [c, a]] with b c < 0, one for
    each complex pair of eigenvalues a +- i sqrt(-b c)."""

    t: Tensor
    q: Tensor

    @property
    def eigenvalues(self) -> Tensor:
        """The eigenvalues of J, complex."""
        paired = self.t.diagonal(-1) != 0  # [n - 1]: whether rows i and i + 1 form a block
        turn = torch.where(paired, (-self.t.diagonal(1) * self.t.diagonal(-1)).clamp(min=0).sqrt(), 0.0)
        nothing = turn.new_zeros(1)
        return torch.complex(self.t.diagonal().clone(), torch.cat((turn, nothing)) - torch.cat((nothing, turn)))

    @property
    def normal_form(self) -> Tensor:
        """Q S Q^T, a normal real matrix with the eigenvalues of J: S is T with zeros above the blocks, and with
        +-sqrt(-b c) in place of b and c."""
        turn = self.eigenvalues.imag[:-1].clamp(min=0) * self.t.diagonal(1).sign()
        qs = self.q * self.t.diagonal()
        qs[:, 1:] += self.q[:, :-1] * turn
        qs[:, :-1] -= self.q[:, 1:] * turn
        return qs @ self.q.mT


def real_schur(matrix: Tensor) -> RealSchur:
    """The real Schur form of a matrix [n, n] in float64, with LAPACK's standard blocks (equal diagonals). Of a matrix
    that is not finite every number is nan."""
    from scipy.linalg import schur  # here: it takes a while, and most runs need none of it

    wide = matrix.detach().double().cpu()
    if not bool(wide.isfinite().all()):
        return RealSchur(torch.full_like(wide, torch.nan), torch.full_like(wide, torch.nan))
    t, q = schur(wide.numpy(), output="real")  # pyright: ignore[reportAssignmentType]
    return RealSchur(torch.from_numpy(t), torch.from_numpy(q))
