"""Softmax over long rows is PyTorch's."""

from __future__ import annotations

import pytest
import torch

from splitstep.kernels import softmax
from splitstep.kernels.softmax import FORMULAS, softmax_kernels

DOUBLE = torch.float64


def rows(seed: int) -> torch.Tensor:
    return 3 * torch.randn(7, 30, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@pytest.mark.parametrize("entries", [1, 90, 2**25])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_rows_are_summed_and_spread_as_pytorch_does(
    temperature: float, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "ENTRIES", entries)
    x, scale = rows(0), torch.linspace(-1, 2, 7, dtype=DOUBLE)
    x[:, 4] = -torch.inf
    lse = FORMULAS.row_lse(x, temperature)
    torch.testing.assert_close(lse, (x / temperature).logsumexp(-1))
    expected = scale[:, None] * (x / temperature).softmax(-1)
    assert FORMULAS.scaled_exp_(x, lse, scale, temperature) is x
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("classes", [1, 23, 30])
def test_a_weighted_divergence_has_pytorchs_value_and_gradient(classes: int) -> None:
    p, q, weights = rows(1), rows(2), torch.linspace(0, 2, 7, dtype=DOUBLE)
    logits = q.clone().requires_grad_()
    log_p, log_q = (x[:, :classes].log_softmax(-1) for x in (p, logits))
    expected = weights * torch.nn.functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    torch.testing.assert_close(FORMULAS.weighted_kl_(p, q, weights, classes), expected)
    torch.testing.assert_close(q, torch.autograd.grad(expected.sum(), logits)[0])


def test_double_precision_has_no_kernels() -> None:
    assert softmax_kernels(rows(0)) is None
