"""The error of a step and its two parts, against matrix exponentials."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny import inputs, tiny
from torch import Tensor

import splitstep as ss
from splitstep.integrate import Step
from splitstep.probes.splitting import commutator, commutator_weights, with_exact_parts
from splitstep.studies.converge.ways import Problem, local_errors, problem_of

WIDTH, H = 5, 0.3


def matrix(seed: int) -> Tensor:
    return torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(a: Tensor) -> Callable[[Any, Tensor, Any], Tensor]:
    return lambda t, x, context: x @ a.T


MATRICES = {name: matrix(seed) for seed, name in enumerate(("A", "F", "F0", "F1"))}


def flow(text: str, real: Tensor | None = None) -> Problem:
    """Three layers of the same linear fields."""
    s = ss.scheme(text)
    fields = {name: linear(MATRICES[name]) for name in s.fields}
    x = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return Problem(s, [Step(fields, i * H, H) for i in range(3)], x, None, lambda x: x, real)


def expm(a: Tensor) -> Tensor:
    return torch.linalg.matrix_exp(a)


def lie_parts(h: float) -> tuple[Tensor, Tensor, Tensor]:
    """exact, split and Euler steps of "A F" as matrices."""
    a, f, one = MATRICES["A"], MATRICES["F"], torch.eye(WIDTH, dtype=torch.float64)
    return expm(h * (a + f)), expm(h * f) @ expm(h * a), (one + h * f) @ (one + h * a)


@pytest.mark.parametrize(("factor", "substeps"), [(1.0, 1), (0.125, 1), (1.0, 2)])
def test_the_parts_of_a_local_error_are_those_of_matrix_exponentials(factor: float, substeps: int) -> None:
    """A step with sub-steps is split in each of them."""
    problem = replace(flow("A F"), substeps=substeps)
    [first, *_] = local_errors(problem, (factor,))
    parts = lie_parts(factor * H / substeps)
    exact, split, there = (torch.linalg.matrix_power(part, substeps) for part in parts)
    x, one = problem.x, torch.eye(WIDTH, dtype=torch.float64)
    moved = (x @ (exact - one).T).norm()
    pairs = (first.total, there - exact), (first.splitting, split - exact), (first.subflow, there - split)
    for found, wanted in pairs:
        assert found == pytest.approx(float((x @ wanted.T).norm() / moved), rel=1e-5)
    assert first.reference < 1e-7


def test_padding_is_no_part_of_a_local_error() -> None:
    real = torch.tensor([[True, True, True], [True, False, False]])
    problem = flow("A F", real)
    [first, *_] = local_errors(problem, (1.0,))
    exact, _, there = lie_parts(H)
    x, one = problem.x[real], torch.eye(WIDTH, dtype=torch.float64)
    assert first.total == pytest.approx(float((x @ (there - exact).T).norm() / (x @ (exact - one).T).norm()), rel=1e-5)


@pytest.mark.parametrize("text", ["A F", "F A", "F0/2 A F1/2", "1/4(A F) + 3/4(F A)", "F*1/4 A F*3/4"])
def test_the_commutator_is_the_leading_term_of_the_splitting(text: str) -> None:
    factors = (1 / 16, 1 / 32, 1 / 64)
    first = [one for one in local_errors(flow(text), factors) if one.layer == 0]
    remainders = [one.remainder or 1.0 for one in first]
    assert remainders[-1] < 0.02
    for coarse, fine in pairwise(remainders):
        assert coarse / fine == pytest.approx(2, rel=0.1)


def test_symmetric_splittings_have_no_commutator() -> None:
    for text in ("F/2 A F/2", "A/2 F A/2", "1/2(A F) + 1/2(F A)", "A+F", "A+F @rk4"):
        assert commutator_weights(ss.scheme(text)) == {}
    assert commutator_weights(ss.scheme("A F")) == {("A", "F"): 0.5}
    assert commutator_weights(ss.scheme("F A")) == {("A", "F"): -0.5}


def test_a_commutator_of_linear_fields_is_that_of_their_matrices() -> None:
    a, f = MATRICES["A"], MATRICES["F"]
    x = flow("A F").x
    assert torch.allclose(commutator(linear(a), linear(f), 0.0, x, None), x @ (f @ a - a @ f).T)


def test_exact_parts_of_strang_are_exponentials() -> None:
    problem = flow("F/2 A F/2")
    a, f = MATRICES["A"], MATRICES["F"]
    got = ss.integrate(with_exact_parts(problem.scheme, 64), problem.steps[:1], problem.x)
    assert torch.allclose(got, problem.x @ (expm(H / 2 * f) @ expm(H * a) @ expm(H / 2 * f)).T, atol=1e-9)


@pytest.mark.parametrize("kind", ["image", "sequence", "causal"])
@pytest.mark.parametrize("scheme", ["lie", "macaron", "reversible"])
def test_a_flow_ends_with_the_models_logits(kind: str, scheme: str) -> None:
    model, given = tiny(kind, scheme, substeps=2), inputs(kind)
    with torch.no_grad():
        found = problem_of(model, given)
        assert torch.equal(found.finish(found.end()), model(**given, use_cache=False).logits)
        assert "forward" not in vars(next(iter(model.modules())))


@pytest.mark.parametrize("kind", ["image", "sequence", "causal"])
def test_local_errors_of_a_network_follow_the_commutator(kind: str) -> None:
    model = tiny(kind, sharp=False).double()
    with torch.no_grad():
        found = local_errors(problem_of(model, inputs(kind)), (1 / 32, 1 / 64))
    coarse, fine = ([one.remainder or 1.0 for one in found if one.factor == factor] for factor in (1 / 32, 1 / 64))
    for large, small in zip(coarse, fine, strict=True):
        assert large / small == pytest.approx(2, rel=0.2)
        assert small < 0.1


@pytest.mark.parametrize("scheme", ["lie-postnorm", "=A =F"])
def test_a_network_that_approximates_no_equation_is_refused(scheme: str) -> None:
    with pytest.raises(ValueError, match="there is no equation"):
        problem_of(tiny("image", scheme), inputs("image"))
