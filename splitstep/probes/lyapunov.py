"""Lyapunov exponents of a product of Jacobians."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def lyapunov_spectrum(jacobians: Iterable[Tensor], time: float, count: int | None = None, seed: int = 15) -> Tensor:
    """The finite-time exponents sum_l log |R_l,ii| / time, largest first, [count] (default: all).

    Q_l R_l = J_l Q_{l-1}, from a random orthogonal Q_0 [n, count] (Benettin's method with all directions). `jacobians`
    are J_1, J_2, ... in the order in which they act, [n, n] each, and `time` is how long they take together. Over a
    long time the exponents do not depend on Q_0; over the depth of a network they do a little, hence the fixed seed.
    """
    logs: Tensor | None = None
    q = torch.empty(0)
    for one in jacobians:
        j = one.detach().double().cpu()
        if logs is None:
            q = orthogonal_start(len(j), count or len(j), seed)
            logs = torch.zeros(q.shape[1], dtype=torch.float64)
        q, r = torch.linalg.qr(j @ q)
        logs = logs + r.diagonal().abs().log()
    if logs is None:
        raise ValueError("lyapunov_spectrum got no Jacobians: give at least one, in the order in which they act.")
    return logs.sort(descending=True).values / time


def orthogonal_start(n: int, count: int, seed: int) -> Tensor:
    """Random orthonormal columns [n, count]."""
    drawn = torch.randn(n, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.linalg.qr(drawn).Q
