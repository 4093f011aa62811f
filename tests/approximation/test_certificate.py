"""The certificate is a proof: no search finds more, and a wrong claim is refused."""

import numpy as np
import pytest
import torch

from benchmarks.approximate import searched
from splitstep.approximation import approximate, certify
from splitstep.approximation.certificate import Cells, Proof, split
from splitstep.approximation.local import LocalMap


@pytest.mark.parametrize(("name", "tokens", "eps"), [("max", 3, 0.1), ("convolution", 2, 0.02), ("product", 3, 0.2)])
def test_no_search_finds_an_error_above_the_certificate(name: str, tokens: int, eps: float) -> None:
    built = approximate(name, tokens=tokens, eps=eps)
    assert built.certificate.met
    assert built.certificate.error is not None
    most = searched(built.model, built.target, 20_000, 100, 50)
    assert most <= built.certificate.error <= eps
    assert most >= 0.9 * built.certificate.sampled  # the search is no weaker than the samples that are reported


def test_a_network_that_reads_some_variables_has_the_bounds_of_the_whole_formula() -> None:
    """Against the formula of the docs on all variables and units, cell by cell."""
    rng = np.random.default_rng(3)
    directions, weights = rng.integers(-2, 3, (12, 4)) * 1.0, rng.normal(size=(3, 12))
    directions[:6, 2:], directions[6:, :2] = 0, 0
    weights[0, 6:], weights[1, :6], weights[2] = 0, 0, 0
    slope = np.where(weights @ directions != 0, rng.normal(size=(3, 4)), 0)
    local = LocalMap(slope, rng.normal(size=3), directions, rng.normal(size=12), weights, 0.0, 0.0, ("token",))
    cells = split(split(Cells(np.full((1, 4), 0.5), np.array([0.5])), 3), 2)
    y, steep = whole_formula(local, cells)
    found = Proof(local, lambda x: np.zeros((len(x), 3)), 1.5)
    assert sorted(len(part.reads) for part in found.parts) == [0, 2, 2]
    wanted = (np.abs(y) + (steep + 1.5) * cells.radii[:, None]).max(1)
    np.testing.assert_allclose(sum(found.bounds(cells)), wanted, rtol=1e-10)


def whole_formula(local: LocalMap, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    p = cells.centres @ local.directions.T + local.biases
    ratio = p / np.maximum(cells.radii[:, None] * np.abs(local.directions).sum(1), 1e-300)
    low, high = np.clip(ratio, 0, 1), np.clip(1 + ratio, 0, 1)
    middle = np.einsum("du,nu,um->ndm", local.weights, (low + high) / 2, local.directions) + local.slope
    spread = np.einsum("du,nu,u->nd", np.abs(local.weights), (high - low) / 2, np.abs(local.directions).sum(1))
    y = cells.centres @ local.slope.T + local.start + np.maximum(p, 0) @ local.weights.T
    return y, np.abs(middle).sum(2) + spread


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.4, *(pytest.param(eps, marks=pytest.mark.nightly) for eps in (0.1, 0.05))])
def test_four_variables_are_certified_for_the_steepest_target(eps: float) -> None:
    built = approximate("product", tokens=2, dim=2, eps=eps)
    assert built.certificate.met
    assert searched(built.model, built.target, 20_000, 100, 50) <= built.certificate.error


def test_one_disturbed_weight_is_seen_wherever_it_is() -> None:
    built = approximate("convolution", tokens=2, eps=0.1)
    assert built.certificate.met
    for name, parameter in built.model.named_parameters():
        index = int(parameter.detach().abs().argmax())
        before = parameter.detach().flatten()[index].item()
        with torch.no_grad():
            parameter.view(-1)[index] = before + (0.5 if "qkv.bias" not in name else -before)
        disturbed = certify(built.model, built.target, 0.1)
        found = np.abs(built(x := grid(2)) - built.target.map(x)).max()
        assert disturbed.error is not None
        assert disturbed.error >= found, name
        assert disturbed.met == (found <= 0.1) or not disturbed.met, name
        with torch.no_grad():
            parameter.view(-1)[index] = before


def grid(tokens: int) -> np.ndarray:
    side = np.linspace(0, 1, 41)
    return np.stack(np.meshgrid(*[side] * tokens, indexing="ij"), -1).reshape(-1, tokens, 1)


def test_attention_that_is_not_sharp_is_refused() -> None:
    sharp = approximate("max", tokens=2, eps=0.02, beta=64.0)
    blunt = approximate("max", tokens=2, eps=0.02, beta=2.0, budget=50_000)  # no number of cells would be enough
    assert sharp.certificate.met
    assert not blunt.certificate.met
    assert blunt.certificate.error is not None
    assert blunt.certificate.error >= np.abs(blunt(grid(2)) - grid(2).max(1, keepdims=True)).max() > 0.02
    gathering = {step.name: step.bound for step in blunt.certificate.steps}["gathering"]
    assert gathering > 0.02


def test_what_is_not_proved_is_not_called_so() -> None:
    """Without a constant there is only a sampled error; a goal out of reach is answered with what was reached."""
    sampled = approximate(lambda x: x**2, tokens=2, eps=0.05).certificate
    assert (sampled.error, sampled.met) == (None, False)
    assert 0 < sampled.sampled < 0.05
    assert "sampled" in sampled.sentence
    short = approximate("product", tokens=2, eps=0.01, budget=60_000).certificate
    assert short.error is not None
    assert short.error > 0.01 >= short.sampled
    assert not short.met
    assert short.cells_needed > short.cells
    assert "The proof needs about" in short.sentence


WRONG = [
    (dict(f="max", eps=0.0), "eps=0 must be a positive number."),
    (dict(f="max", eps=-1.0), "eps=-1 must be a positive number."),
    (dict(f="max", eps=float("nan")), "eps=nan must be a positive number."),
    (dict(f="maxx"), "Unknown target 'maxx'. Did you mean max?"),
    (dict(f=lambda x: x[..., 0]), "returns shape (64, 2) for an input of shape (64, 2, 1)"),
    (dict(f=lambda x: x / 0 * np.nan), "returns numbers that are not finite"),
    (dict(f=lambda x: np.random.default_rng().random(x.shape)), "it must not be random"),
    (dict(f=lambda x: x @ np.ones((3, 3))), "fails on an array of shape (64, 2, 1)"),
    (dict(f="lambda x: x +", tokens=2), "is not an expression of Python"),
    (dict(f="max", tokens=8), "needs at least"),
    (dict(f=lambda x: x, tokens=8), "Use at most 6 variables."),
    (dict(f="max", tokens=0), "tokens=0 and dim=1: both must be positive"),
    (dict(f="max", lipschitz=-1.0), "lipschitz=-1.0 must be 0 or a positive number."),
    (dict(f="convolution", lipschitz=1.0), "lipschitz=1 is contradicted: "),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("given", "says"), WRONG)
def test_wrong_input_is_one_line(given: dict, says: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        approximate(**({"tokens": 2, "eps": 0.05} | given))
    assert says in str(error.value)
