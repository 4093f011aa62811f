"""The figures of GLUE, added up over batches, against scikit-learn and scipy."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from splitstep.tasks.measures import class_figures, class_sums, number_figures, number_sums, spearman


def added(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part[name] for part in parts) for name in parts[0]}


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_scored_as_scikit_learn_does(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    labels = (torch.rand(101, generator=random) < 0.7).long()
    logits = torch.randn(101, 2, generator=random) + torch.stack([-labels, labels], 1)
    rows = zip(logits.split(16), labels.split(16), strict=True)
    found = class_figures(added([class_sums(*part) for part in rows]))
    guess = logits.argmax(-1)
    assert found["f1"] == pytest.approx(metrics.f1_score(labels, guess), abs=1e-12)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, guess), abs=1e-12)
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(labels, guess), abs=1e-12)
    assert found["f1_accuracy"] == pytest.approx((found["f1"] + found["accuracy"]) / 2)
    assert found["loss"] == pytest.approx(metrics.log_loss(labels, logits.double().softmax(-1)), rel=1e-6)


@pytest.mark.parametrize("guess", [0, 1])
def test_one_guess_for_all_is_scored_as_scikit_learn_does(guess: int) -> None:
    labels = torch.tensor([0, 1, 1, 0, 1])
    logits = torch.zeros(5, 2)
    logits[:, guess] = 1
    found = class_figures(class_sums(logits, labels))
    assert found["matthews"] == metrics.matthews_corrcoef(labels, [guess] * 5) == 0
    assert found["f1"] == pytest.approx(metrics.f1_score(labels, [guess] * 5, zero_division=0))  # pyright: ignore


def test_several_classes_have_no_f1() -> None:
    assert set(class_figures(class_sums(torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])))) == {"loss", "accuracy"}


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_scored_as_scipy_does(seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    labels = np.round(random.uniform(0, 5, 203), 1) + shift  # with ties
    guess = labels + random.normal(0, 1, 203)
    x, y = torch.from_numpy(guess)[:, None], torch.from_numpy(labels)
    rows = zip(x.split(20), y.split(20), strict=True)
    found = number_figures(added([number_sums(*part) for part in rows]))
    assert found["pearson"] == pytest.approx(stats.pearsonr(guess, labels)[0], abs=1e-9)
    assert found["loss"] == pytest.approx(metrics.mean_squared_error(labels, guess))
    assert spearman(guess, labels) == pytest.approx(stats.spearmanr(guess, labels)[0])


def test_constant_predictions_correlate_with_nothing() -> None:
    labels = torch.tensor([1.0, 2.0, 3.0])
    assert number_figures(number_sums(torch.full((3, 1), 0.1), labels))["pearson"] == 0
    assert spearman(np.full(3, 0.1), labels.numpy()) == 0
