"""Diffusion against the heat equation: closed forms, scipy's matrix exponential, documents, grids, causality."""

from typing import Any

import numpy as np
import pytest
import torch
from field_cases import DOCUMENTS
from field_cases import normal as drawn
from scipy.linalg import expm
from scipy.stats import poisson
from torch import Tensor

import splitstep as ss
from splitstep.fields import Context, Diffusion, FieldSpec, Projection, Stabiliser, norm
from splitstep.fields.diffusion import diffusion
from splitstep.letters import DiffusionOptions, StabiliserOptions

ENDS = ["reflecting", "fixed", "upwind"]
ALPHA = 0.3


def made(ends: str, alpha: float = ALPHA, grid: tuple[int, int] | None = None, width: int = 3) -> Diffusion:
    options = DiffusionOptions(alpha, "fixed" if ends == "fixed" else "reflecting")
    return diffusion(FieldSpec(width, causal=ends == "upwind", options=options, grid=grid)).double()


def matrix(n: int, ends: str) -> np.ndarray[Any, Any]:
    """The stencil of one document, written out."""
    m = np.zeros((n, n))
    for i in range(n):
        for j in (i - 1,) if ends == "upwind" else (i - 1, i + 1):
            inside = 0 <= j < n and not (ends == "fixed" and i in (0, n - 1))
            m[i, i] -= inside
            m[i, max(min(j, n - 1), 0)] += inside
    return m


def close(found: Tensor, expected: Any, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found.detach(), torch.as_tensor(expected, dtype=found.dtype), rtol=0, atol=atol)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 33])
def test_flow_and_stencil_are_those_of_the_matrix(n: int, ends: str) -> None:
    field, x, h = made(ends), drawn(2, n, 3), 1.7
    close(field(0.0, x), ALPHA * matrix(n, ends) @ x.numpy(), 1e-7)  # alpha is made in float32
    alpha = field.alpha(x).item()
    close(field(0.0, x), alpha * matrix(n, ends) @ x.numpy())
    close(field.flow(0.0, h, x), expm(alpha * h * matrix(n, ends)) @ x.numpy())


def test_a_smooth_bump_spreads_as_the_heat_kernel() -> None:
    """On a fine grid the second difference is the second derivative: a Gaussian's variance grows by 2 alpha h."""
    field, n, h = made("reflecting"), 400, 50.0
    s = torch.arange(n, dtype=torch.float64) - n / 2
    before, variance = torch.exp(-(s**2) / (2 * 400.0)), 400.0
    after = variance + 2 * field.alpha(s).item() * h
    expected = (variance / after) ** 0.5 * torch.exp(-(s**2) / (2 * after))
    close(field.flow(0.0, h, before[None, :, None])[0, :, 0], expected, 1e-4)


@pytest.mark.parametrize("ends", ENDS)
def test_documents_diffuse_alone_and_padding_stays(ends: str) -> None:
    field, x, context = made(ends), drawn(4, 7, 3), Context(documents=DOCUMENTS)
    flowed, rate = field.flow(0.0, 1.3, x, context), field(0.0, x, context)
    for b, row in enumerate(DOCUMENTS):
        assert torch.equal(flowed[b, row == 0], x[b, row == 0])
        assert rate[b, row == 0].abs().max() == 0 if (row == 0).any() else True
        for document in {int(d) for d in row if d}:
            own = x[b, row == document][None]
            close(flowed[b, row == document], field.flow(0.0, 1.3, own)[0])
            close(rate[b, row == document], field(0.0, own)[0])


@pytest.mark.parametrize("ends", ["reflecting", "fixed"])
def test_a_grid_is_the_kronecker_sum_of_its_rows_and_columns(ends: str) -> None:
    field, x = made(ends, grid=(4, 5)), drawn(2, 20, 3)
    m = np.kron(matrix(4, ends), np.eye(5)) + np.kron(np.eye(4), matrix(5, ends))
    alpha = field.alpha(x).item()
    close(field(0.0, x), alpha * m @ x.numpy())
    close(field.flow(0.0, 0.9, x), expm(0.9 * alpha * m) @ x.numpy())


def test_the_upwind_flow_has_poisson_weights_with_the_tail_on_the_first_token() -> None:
    field, n, h = made("upwind"), 9, 2.0
    weights = field.flow(0.0, h, torch.eye(n, dtype=torch.float64)[None])[0]
    mean = field.alpha(weights).item() * h
    for i in range(n):
        close(weights[i, 1 : i + 1], poisson.pmf(np.arange(i), mean)[::-1].copy())
        close(weights[i, 0], poisson.sf(i - 1, mean))
        assert weights[i, i + 1 :].abs().max() == 0 if i + 1 < n else True


@pytest.mark.parametrize("ends", ENDS)
def test_gradients_are_those_of_finite_differences(ends: str) -> None:
    field, x, context = made(ends), drawn(4, 7, 3).requires_grad_(), Context(documents=DOCUMENTS)

    def both(*given: Tensor) -> tuple[Tensor, Tensor]:  # the given tensors are those that the field reads
        return field.flow(0.0, 0.7, x, context), field(0.0, x, context)

    assert torch.autograd.gradcheck(both, (field.a, x))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("n", [100, 700])
def test_long_documents_are_right_in_float32_and_under_autocast(ends: str, n: int) -> None:
    field = made(ends, width=1)
    x = drawn(1, n, 1)
    expected = field.flow(0.0, 4.0, x)
    narrow: Any = made(ends, width=1).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = narrow.flow(0.0, 4.0, x.float())
    assert found.dtype == torch.float32
    close(found.double(), expected, 3e-6)
    assert narrow.flow(0.0, 4.0, x.bfloat16()).dtype == torch.bfloat16


def test_the_stabiliser_is_the_projection_if_gamma_h_is_one() -> None:
    for gamma, h in ((1.0, 1.0), (2.0, 0.5), (0.25, 4.0)):
        spec = FieldSpec(6, options=StabiliserOptions(gamma), projection=lambda: norm("layer", 6))
        field, x = Stabiliser(spec).double(), 3 + 2 * drawn(2, 5, 6)
        field.get_parameter("norm.weight").detach().copy_(drawn(6))
        step = ss.Step({"S": field, "A": lambda t, x, c: 0 * x, "N": Projection(field.norm)}, 0.0, h)
        pulled = ss.integrate(ss.scheme("S"), [step], x)
        close(pulled, ss.integrate(ss.scheme("A N"), [step], x).detach(), 2e-15)
