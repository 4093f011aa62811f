"""The growth of perturbations is that of linear systems, and of the Jacobian where nothing is linear."""

from math import log, sin
from typing import Any

import pytest
import torch
from tiny import inputs, tiny
from torch import Tensor, nn

from splitstep.fields.attention import exact_attention
from splitstep.probes import observe
from splitstep.schemes import scheme
from splitstep.stack import Stack


class Linear(nn.Module):
    """f(x) = x B, with B drawn or given."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, t: Any, x: Tensor, context: Any = None) -> Tensor:
        return x @ self.matrix


class Network(nn.Module):
    """A stack alone."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor, use_cache: bool, observe: Any) -> Tensor:
        return self.stack(x, None, observe)


def growth_of(notation: str, fields: dict[str, Tensor], layers: int, **options: Any) -> Any:
    """What the probe finds in a stack of linear fields, in float64."""
    stack = Stack(scheme(notation), layers, lambda name, _: Linear(fields[name]), **options).double()
    x = torch.randn(5, 3, len(fields["F"]), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return observe(Network(stack), {"x": x}, ["sensitivity"])["sensitivity"]["stack"]


def test_a_rotation_that_stretches_has_its_factor_in_every_layer() -> None:
    """x' = (c R - 1) x by Euler's step of length 1 is x -> c R x: log c in each layer, for every direction."""
    angle, c = 0.7, 1.8
    turn = torch.tensor([[(1 - sin(angle) ** 2) ** 0.5, sin(angle)], [-sin(angle), (1 - sin(angle) ** 2) ** 0.5]])
    found = growth_of("F", {"F": c * turn.double() - torch.eye(2)}, 6)
    assert found["growth"] == pytest.approx([log(c)] * 6, abs=1e-6)
    assert found["exponent"] == (pytest.approx(log(c), abs=1e-6),)


@pytest.mark.parametrize(("notation", "substeps"), [("A F", 1), ("A+F @rk4", 1), ("F/2 A F/2 @midpoint", 2)])
def test_the_exponent_of_a_linear_system_is_that_of_its_eigenvalues(notation: str, substeps: int) -> None:
    """Over many layers every perturbation turns into the leading eigenvector of a step's matrix."""
    generator = torch.Generator().manual_seed(0)
    a, f = (torch.randn(4, 4, generator=generator, dtype=torch.float64) / 4 for _ in range(2))
    a = a + a.mT  # the leading eigenvalue is real
    f = f + f.mT
    h, layers = 0.5, 80
    found = growth_of(notation, {"A": a, "F": f}, layers, step=h, substeps=substeps)
    stack = Stack(scheme(notation), 1, lambda name, _: Linear({"A": a, "F": f}[name]), h, substeps).double()
    matrix = stack(torch.eye(4, dtype=torch.float64)[None])[0].detach()
    leading = torch.linalg.eigvals(matrix).abs().max().log().item()
    assert found["growth"][-1] == pytest.approx(leading, abs=1e-5)
    late = sum(found["growth"][40:]) / (40 * h)
    assert late == pytest.approx(leading / h, abs=1e-4)
    assert found["exponent"] == (pytest.approx(sum(found["growth"]) / (layers * h)),)
    if notation == "A+F @rk4":  # nearly the flow itself: the exponent is the largest eigenvalue of A + F
        assert late == pytest.approx(torch.linalg.eigvals(a + f).real.max().item(), abs=2e-3)


def test_a_pair_grows_as_its_linear_map() -> None:
    """b: F/2 a: F b: F/2 on a doubled state: the map of the pair (a, b), whose leading eigenvalue counts."""
    f = torch.tensor([[0.4, 0.1], [0.1, 0.3]], dtype=torch.float64)
    found = growth_of("b:F/2 a:F b:F/2", {"F": f}, 60)
    one, zero = torch.eye(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    move_b = torch.cat((torch.cat((one, f / 2), 1), torch.cat((zero, one), 1)))  # rows: (a, b) -> (a, b + a F/2)
    move_a = torch.cat((torch.cat((one, zero), 1), torch.cat((f, one), 1)))
    leading = torch.linalg.eigvals(move_b @ move_a @ move_b).abs().max().log().item()
    assert found["growth"][-1] == pytest.approx(leading, abs=1e-5)


@pytest.mark.parametrize("kind", ["sequence", "causal", "image"])
def test_growth_in_a_transformer_is_that_of_the_jacobian(kind: str) -> None:
    """The same four directions through each layer's Jacobian-vector product, in float64; nothing of padding counts."""
    from splitstep.integrate import integrate
    from splitstep.probes.sensitivity import DIRECTIONS, SEED

    model, given = tiny(kind).double(), inputs(kind)
    given = {name: x.double() if x.is_floating_point() else x for name, x in given.items()}
    found: Any = next(iter(observe(model, given, ["sensitivity"])["sensitivity"].values()))
    events: list[Any] = []
    model(**given, observe=events.append, use_cache=False)
    x, context = events[0].x.detach(), events[0].context
    stack = next(m for m in model.modules() if isinstance(m, Stack))
    noise = torch.randn(DIRECTIONS, 1, *x.shape, generator=torch.Generator().manual_seed(SEED))[:, 0].double()
    weight = given["attention_mask"][..., None] if "attention_mask" in given else torch.ones(1)
    growth = torch.zeros(DIRECTIONS, 2, len(x))
    for number, direction in enumerate(noise):
        y, v = x, direction * weight
        v = v * ((y * weight).flatten(1).norm(dim=1) / v.flatten(1).norm(dim=1))[:, None, None]
        for layer, step in enumerate(stack.steps()):
            with exact_attention():
                y, after = torch.func.jvp(lambda z, s=step: integrate(stack.scheme, [s], z, context), (y,), (v,))
            after = after * weight
            growth[number, layer] = (after.flatten(1).norm(dim=1) / v.flatten(1).norm(dim=1)).log().detach()
            v = after
    assert found["growth"] == pytest.approx(growth.mean((0, 2)).tolist(), abs=5e-3)


def test_half_precision_does_not_drown_the_perturbation() -> None:
    """Under autocast a difference of 1/1000 would be rounding errors, so the probe runs without."""
    model, given = tiny("causal", positions="rotary"), inputs("causal")
    plain: Any = observe(model, given, ["sensitivity"])["sensitivity"]["body.stack"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half: Any = observe(model, given, ["sensitivity"])["sensitivity"]["body.stack"]
    assert half["growth"] == pytest.approx(plain["growth"], abs=0.02)
