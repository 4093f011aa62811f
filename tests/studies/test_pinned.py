"""The pinned problem: splittings of heat with reaction have their orders, and lose a part of them if it is stiff."""

from itertools import pairwise
from math import log2
from typing import Any

import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

import splitstep as ss
from splitstep.fields import FieldSpec
from splitstep.fields.diffusion import diffusion
from splitstep.letters import DiffusionOptions
from splitstep.studies.pinned import pinned_orders
from splitstep.studies.slopes import measure


def test_lie_trotter_has_slope_1_and_strang_slope_2() -> None:
    rows = pinned_orders()
    assert [row.order for row in rows] == [1, 2, 2]
    for row in rows:
        assert ss.scheme(row.notation).order == row.order
        assert row.slope == pytest.approx(row.order, abs=0.1)


def test_with_a_constant_reaction_the_parts_commute_and_all_are_exact() -> None:
    assert max(error for row in pinned_orders(reaction="constant") for error in row.errors) < 1e-12


def test_strang_loses_a_quarter_of_an_order_if_diffusion_is_stiff() -> None:
    """With reflecting ends and a reaction whose slope does not vanish there. Lie-Trotter loses nothing."""
    for ends, lowest, highest in (("reflecting", 1.65, 1.8), ("fixed", 1.95, 2.05)):
        lie, strang, _ = pinned_orders(128, ends)
        assert lie.slope == pytest.approx(1, abs=0.05)
        assert all(lowest < log2(before / after) < highest for before, after in pairwise(strang.errors))


@pytest.mark.parametrize("text", [
    "D/2@exact A F D/2@exact",
    "D/2@exact F/2@midpoint A@midpoint F/2@midpoint D/2@exact",
    "1/2(A D@exact) + 1/2(D@exact A) @heun",
])  # fmt: skip
def test_orders_with_exact_sub_flows_measure_as_computed(text: str) -> None:
    measured, order = measure(ss.scheme(text)), ss.scheme(text).order
    assert (measured.autonomous, measured.time_dependent) == pytest.approx((order, order), abs=0.15)


@pytest.mark.parametrize("ends", ["reflecting", "fixed", "upwind"])
def test_diffusion_splits_from_a_nonlinear_field_with_its_order(ends: str) -> None:
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(2, 2, dtype=torch.float64, generator=generator)
    start = torch.randn(1, 5, 2, dtype=torch.float64, generator=generator)
    field = diffusion(FieldSpec(2, options=DiffusionOptions(0.3, ends))).double().requires_grad_(False)

    def f(t: Any, x: Tensor, context: Any) -> Tensor:
        return torch.sin(x @ w + torch.cos(torch.as_tensor(t)))

    def slope(t: float, flat: Any) -> Any:
        x = torch.from_numpy(flat).view_as(start)
        return (field(t, x) + f(t, x, None)).flatten().numpy()

    solved = solve_ivp(slope, (0.0, 2.0), start.flatten().numpy(), method="DOP853", rtol=1e-12, atol=1e-12)
    exact = torch.from_numpy(solved.y[:, -1].copy()).view_as(start)
    for text in ("F D@exact", "D/2@exact F@heun D/2@exact", "D+F @rk4"):
        ends_of = [ss.integrate(ss.scheme(text), ss.uniform({"D": field, "F": f}, 2.0, n), start) for n in (32, 64)]
        errors = [(x - exact).norm().item() for x in ends_of]
        assert log2(errors[0] / errors[1]) == pytest.approx(ss.scheme(text).order, abs=0.15)
