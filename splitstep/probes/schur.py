"""A Jacobian without its non-normality: what remains if only the eigenvalues act, in orthogonal directions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class RealSchur(NamedTuple):
    """J = Q T Q^T with Q orthogonal and T upper triangular but for 2 x 2 blocks [[a, b], [c, a]] with b c < 0, one for
    each complex pair of eigenvalues a +- i sqrt(-b c)."""

    t: Tensor
    q: Tensor

    @property
    def paired(self) -> Tensor:
        """[n - 1]: whether rows i and i + 1 form a block."""
        return self.t.diagonal(-1) != 0

    @property
    def eigenvalues(self) -> Tensor:
        """The eigenvalues of J, complex."""
        turn = torch.where(self.paired, (-self.t.diagonal(1) * self.t.diagonal(-1)).clamp(min=0).sqrt(), 0.0)
        nothing = turn.new_zeros(1)
        return torch.complex(self.t.diagonal().clone(), torch.cat((turn, nothing)) - torch.cat((nothing, turn)))

    @property
    def normal_form(self) -> Tensor:
        """Q S Q^T, a normal real matrix with the eigenvalues of J: S is T with zeros above the blocks, and with
        +-sqrt(-b c) in place of b and c."""
        turn = self.eigenvalues.imag[:-1].clamp(min=0) * self.t.diagonal(1).sign()
        s = torch.diag(self.t.diagonal()) + torch.diag(turn, 1) - torch.diag(turn, -1)
        return self.q @ s @ self.q.mT


def real_schur(matrix: Tensor) -> RealSchur:
    """The real Schur form of a matrix [n, n] in float64, with LAPACK's standard blocks (equal diagonals). Of a matrix
    that is not finite every number is nan."""
    from scipy.linalg import schur  # here: it takes a while, and most runs need none of it

    wide = matrix.detach().double().cpu()
    if not bool(wide.isfinite().all()):
        return RealSchur(torch.full_like(wide, torch.nan), torch.full_like(wide, torch.nan))
    t, q = schur(wide.numpy(), output="real")  # pyright: ignore[reportAssignmentType]
    return RealSchur(torch.from_numpy(t), torch.from_numpy(q))


def without_nonnormality(matrix: Tensor) -> Tensor:
    """The normal matrix nearest in kind to J: same eigenvalues, same Schur vectors, nothing above the blocks."""
    return real_schur(matrix).normal_form
