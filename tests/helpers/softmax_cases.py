"""Samples for tests of softmax over long rows as kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

from splitstep.kernels.fusing import FUSED
from splitstep.kernels.softmax import FORMULAS, Kernels, check

WIDTHS = ((1, 1), (7, 5), (1000, 1000), (2049, 2048), (33_344, 33_278))  # of rows, and how many columns are classes


def close(found: Tensor, expected: Tensor, rtol: float) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=1e-6)


def agree(kernels: Kernels, device: str, truncates: Sequence[torch.dtype] = ()) -> None:
    """The claim itself: a block and several, full and not; rows with something between them."""
    check(kernels, device)
    random = torch.Generator().manual_seed(0)
    for dtype, (width, classes), rows in product(FUSED, WIDTHS, (1, 3)):
        rtol = 1e-4 + (2 if dtype in truncates else 1) * torch.finfo(dtype).eps
        p, q = (3 * torch.randn(rows, width + 9, generator=random).to(device, dtype)[:, :width] for _ in range(2))
        scale = torch.randn(rows, generator=random).to(device)
        for temperature in (1.0, 2.0):
            x = q.clone()
            x[:, 1::3] = -torch.inf
            lse, exact = (
                one.row_lse(x.to(to), temperature) for one, to in ((kernels, dtype), (FORMULAS, torch.float64))
            )
            assert lse.dtype == torch.float32
            close(lse, exact, 1e-5)
            expected = FORMULAS.scaled_exp_(x.double(), exact, scale.double(), temperature)
            between = torch.empty(rows, width + 9, device=device, dtype=dtype)[:, :width].copy_(x)
            assert kernels.scaled_exp_(between, lse, scale, temperature) is between
            close(between, expected, rtol)
        slopes, exact = q.clone(), q.double()
        expected = FORMULAS.weighted_kl_(p.double(), exact, scale.double(), classes)
        before = p.clone()
        close(kernels.weighted_kl_(p, slopes, scale, classes), expected, 1e-4)
        assert torch.equal(p, before)
        assert not slopes[:, classes:].any()
        close(slopes, exact, rtol)
