"""Estimates of mutual information agree with closed forms, within their own intervals, and with brute force."""

from math import log
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import digamma
from tiny import inputs, labels, tiny
from torch import Tensor

from splitstep.probes import observe
from splitstep.probes.information import (
    SIGMAS,
    coarse,
    input_biases,
    label_biases,
    label_information,
    mixture_information,
    mixture_label_information,
    neighbour_label_information,
    pairwise_bounds,
    standardised,
)

CPU, TRIALS = torch.device("cpu"), 20


def gaussians(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("k", "sigma"), [(1, 0.5), (2, 1.0), (4, 1.0), (4, 2.0)])
def test_information_on_gaussians_is_the_closed_form_within_the_interval(k: int, sigma: float) -> None:
    """T ~ N(0, 1) in k dimensions: I(X; T + sigma Z) = k/2 log(1 + 1/sigma^2). The interval is the estimate's own; over
    20 sets of samples it holds the truth about 19 times, and the error is the spread."""
    truth, found = k / 2 * log(1 + 1 / sigma**2), mixture_information(gaussians(TRIALS, 400, k), sigma)
    assert ((found.value - truth).abs() < 1.96 * found.error).sum() >= 16
    assert float(found.error.mean()) == pytest.approx(float(found.value.std()), rel=0.5)
    assert float(found.value.mean()) == pytest.approx(truth, abs=float(found.error.mean()))


@pytest.mark.parametrize(("k", "sigma"), [(1, 0.5), (4, 1.0), (8, 2.0)])
def test_the_pairwise_bounds_lie_on_both_sides(k: int, sigma: float) -> None:
    """And where many Gaussian samples should put them: with c = 8 or 2 and s = c/2 sigma^2 the mean of the kernel is
    (1 + 1/s)^(-k/2) exp(-t^2 / (2 (s + 1))), so the bound tends to k/2 log(1 + 1/s) + k / (2 (s + 1))."""
    truth = k / 2 * log(1 + 1 / sigma**2)
    lower, upper = pairwise_bounds(gaussians(TRIALS, 1000, k), sigma)
    assert (lower.value < truth).all()
    assert (upper.value > truth).all()
    for found, s in ((lower, 4 * sigma**2), (upper, sigma**2)):
        limit = k / 2 * log(1 + 1 / s) + k / (2 * (1 + s))
        assert float(found.value.mean()) == pytest.approx(limit, rel=0.05)


def test_the_pairwise_bounds_are_those_of_a_double_loop() -> None:
    t = gaussians(9, 3)
    for found, c in zip(pairwise_bounds(t, 0.7), (8, 2), strict=True):
        kernel = [[np.exp(-float((a - b).square().sum()) / (c * 0.49)) for b in t] for a in t]
        assert float(found.value) == pytest.approx(-np.mean([np.log(np.mean(row)) for row in kernel]))


def test_errors_are_those_of_a_jackknife() -> None:
    """Leaving out one sample after the other."""
    t = gaussians(80, 2)
    for number in (0, 1):
        found = pairwise_bounds(t, 1.0)[number]
        without = torch.stack([pairwise_bounds(torch.cat((t[:i], t[i + 1 :])), 1.0)[number].value for i in range(80)])
        jackknife = float(((without - without.mean()).square().sum() * 79 / 80).sqrt())
        assert float(found.error) == pytest.approx(jackknife, rel=0.1)


def ross(t: np.ndarray, y: np.ndarray, k: int = 3) -> float:
    """By the formula, point by point, without labels that are there once."""
    kept = [i for i in range(len(y)) if (y == y[i]).sum() > 1]
    terms = []
    for i in kept:
        same = sorted(np.linalg.norm(t[i] - t[j]) for j in kept if j != i and y[j] == y[i])
        near = min(k, len(same))
        m = 1 + sum(np.linalg.norm(t[i] - t[j]) < same[near - 1] for j in kept if j != i)
        terms.append(digamma(near) - digamma(len(same) + 1) - digamma(m))
    return float(digamma(len(kept)) + np.mean(terms))


def test_neighbours_are_those_of_the_formula_and_of_scikit_learn() -> None:
    from sklearn.feature_selection import mutual_info_classif

    y = torch.tensor([0] * 10 + [1] * 3 + [2] * 20 + [3])
    t = gaussians(2, 34, 3) + y[:, None]
    found = neighbour_label_information(t, y).value
    assert found.tolist() == pytest.approx([ross(one.numpy(), y.numpy()) for one in t])
    alone = t[0, :, :1]
    learned = mutual_info_classif(alone.numpy() / alone.std().item(), y.numpy(), random_state=0)
    assert float(neighbour_label_information(alone, y).value) == pytest.approx(learned[0], abs=1e-6)


@pytest.mark.parametrize("sigma", [0.0, 1.0, 2.0])
def test_labels_of_gaussian_classes_are_found_within_the_interval(sigma: float) -> None:
    """Two classes at +-m in two dimensions: I(Y; T + sigma Z) by quadrature along the line through both."""
    m, y = 1.0, torch.arange(2).repeat_interleave(200)
    t = gaussians(TRIALS, 400, 2)
    t[..., 0] += m * (2 * y - 1)
    u, scale = np.linspace(-12, 12, 4001), (1 + sigma**2) ** 0.5
    p, q = (np.exp(-(((u - c) / scale) ** 2) / 2) / (scale * (2 * np.pi) ** 0.5) for c in (m, -m))
    truth = float(np.trapezoid(p * np.log(2 * p / (p + q)), u))
    found = mixture_label_information(t, y, sigma) if sigma else neighbour_label_information(t, y)
    assert ((found.value - truth).abs() < 1.96 * found.error).sum() >= 16
    assert float(found.value.mean()) == pytest.approx(truth, abs=float(found.error.mean()))
    centres = torch.tensor([[-m, 0.0], [m, 0.0]], dtype=torch.float64)
    drawn, noise = torch.arange(2).repeat(2**13), gaussians(2**14, 2)
    half = torch.full((2,), 0.5, dtype=torch.float64)
    assert label_information(centres, half, drawn, noise, 1 + sigma**2) == pytest.approx(truth, abs=0.02)


def test_the_bias_shrinks_with_the_number_of_samples() -> None:
    few, many = (
        input_biases(n, 4, CPU, torch.float64) | label_biases((n // 4,) * 4, 4, CPU, torch.float64) for n in (64, 256)
    )
    assert few.keys() == many.keys()
    assert len(few) == 4 * len(SIGMAS) + 1
    for name in ("I(X;T) mixture 1", "I(X;T) mixture 2", "I(Y;T) mixture 1", "I(Y;T) neighbours"):
        assert abs(many[name]) < max(abs(few[name]), 0.05), name
        assert abs(many[name]) < 0.1, name
    for sigma in SIGMAS:
        assert many[f"I(X;T) lower {sigma:g}"] < 0 < many[f"I(X;T) upper {sigma:g}"]


def test_samples_are_centred_and_scaled_as_one() -> None:
    t = standardised(5 + 100 * gaussians(3, 50, 16))
    assert t.shape == (3, 50, 4)
    torch.testing.assert_close(t.mean(1), torch.zeros(3, 4), rtol=0, atol=1e-6)
    torch.testing.assert_close(t.square().mean((1, 2)), torch.ones(3))
    assert t.square().mean(1).std() > 1e-3  # the coordinates keep their proportions


def test_rare_tokens_are_one_class() -> None:
    tokens = torch.tensor([9] * 5 + [3] * 4 + list(range(100, 120)))
    found = coarse(tokens)
    assert found[:9].tolist() == tokens[:9].tolist()
    assert (found[9:] == -1).sum() == 20 - 5
    assert len(found.unique()) == 8


def test_one_example_alone_is_refused() -> None:
    given = {name: x[:1] for name, x in {**inputs("image"), "labels": labels("image")}.items()}
    with pytest.raises(ValueError, match=r"larger train\.probe_batch"):
        observe(tiny("image"), given, ["information"])


@pytest.mark.parametrize("kind", ["sequence", "image", "causal", "masked", "translation"])
@torch.no_grad()
def test_every_kind_of_model_has_an_information_plane(kind: str) -> None:
    """The encoder of a translator has no Y; what stands in padding changes nothing."""
    model, given = tiny(kind), {**inputs(kind), "labels": labels(kind)}
    given = {name: x.repeat_interleave(3, 0) for name, x in given.items()}
    key = "pixel_values" if kind == "image" else "input_ids"
    shift = (torch.arange(9).view(-1, *[1] * (given[key].ndim - 1)) % 3).to(given[key])
    given[key] = (given[key] + shift).clamp(max=28)
    found: Any = observe(model, given, ["information"])["information"]
    for stack, figures in found.items():
        assert any(name.startswith("I(Y") for name in figures) == (
            stack != "encoder.body.stack" or kind != "translation"
        )
        assert all(len(series) == (1 if name.endswith("bias") else 3) for name, series in figures.items())
        for name in [name for name in figures if name.endswith("mixture 1")]:
            assert np.isfinite(figures[name]).all()
            assert {f"{name} error", f"{name} bias"} <= figures.keys()
    if "attention_mask" in given and kind != "causal":
        hidden = given["attention_mask"] == 0
        if kind == "masked":
            given["labels"] = given["labels"].masked_fill(hidden, -100)
            found = observe(model, given, ["information"])["information"]
        other = {**given, "input_ids": torch.where(hidden, 5, given["input_ids"])}
        again: Any = observe(model, other, ["information"])["information"]
        for stack, figures in found.items():
            for name, series in figures.items():
                assert again[stack][name] == pytest.approx(series, rel=1e-3, abs=1e-3), name
