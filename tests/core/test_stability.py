"""Limits of explicit diffusion: what the literature says, and what happens just below and just above them."""

import math

import pytest
import torch

import splitstep as ss
from splitstep.fields import FieldSpec
from splitstep.fields.diffusion import diffusion
from splitstep.letters import DiffusionOptions
from splitstep.stability import beyond_limit, limit, longest_step, polynomial

KNOWN = {"euler": 0.5, "midpoint": 0.5, "heun": 0.5, "kutta3": 0.6282, "rk4": 0.6963}


@pytest.mark.parametrize(("name", "value"), KNOWN.items())
def test_the_limits_are_those_of_the_literature(name: str, value: float) -> None:
    tableau = ss.TABLEAUX[name]
    assert limit(tableau) == pytest.approx(value, abs=1e-4)
    assert limit(tableau, axes=2) == pytest.approx(value / 2, abs=1e-4)
    assert limit(tableau, "upwind") == pytest.approx(2 * value, abs=1e-4)  # the circle's leftmost point decides
    stages = len(tableau.b)
    assert polynomial(tableau) == pytest.approx([1 / math.factorial(k) for k in range(stages + 1)])


@pytest.mark.parametrize("ends", ["reflecting", "fixed", "upwind"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_step_just_below_is_stable_and_one_just_above_is_not(name: str, ends: str) -> None:
    n, steps = 400, 100  # long enough for the noise that travels upwind to grow before it leaves
    options = DiffusionOptions(1.0, "fixed" if ends == "fixed" else "reflecting")
    field = diffusion(FieldSpec(1, causal=ends == "upwind", options=options)).double()
    alpha = field.alpha(torch.zeros(1, dtype=torch.float64)).item()
    noise = torch.randn(1, n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise[:, 0] = noise[:, -1] = 0
    sizes = []
    for factor in (0.98, 1.06):
        h = factor * limit(ss.TABLEAUX[name], ends) / alpha
        x = ss.integrate(ss.scheme(f"D@{name}"), ss.uniform({"D": field}, steps * h, steps), noise)
        sizes.append(float(x.detach().norm() / noise.norm()))
    assert sizes[0] < 1
    assert sizes[1] > 10


def test_the_limit_counts_fractions_and_leaves_exact_flows_alone() -> None:
    assert longest_step(ss.scheme("D/2 A F D/2"), "reflecting")[0] == pytest.approx(1.0)
    assert longest_step(ss.scheme("D/4 A D*3/4"), "reflecting")[0] == pytest.approx(2 / 3)
    assert longest_step(ss.scheme("A F D@exact"), "reflecting")[0] == math.inf
    assert longest_step(ss.scheme("A F D/2@exact D/2@rk4"), "upwind") == (pytest.approx(2.785, abs=1e-3), "rk4")
    assert longest_step(ss.scheme("A F"), "reflecting")[0] == math.inf
    assert beyond_limit(ss.scheme("A F D"), 0.5, 1.0, "reflecting") == ""
    says = beyond_limit(ss.scheme("A F D"), 0.8, 1.0, "reflecting")
    assert "0.8 is above 0.5" in says
    assert "write D@exact, or use 2 times as many model.substeps, or model.letters.D.alpha below 0.5" in says
    assert beyond_limit(ss.scheme("A F D"), 0.8, 0.5, "reflecting") == ""
