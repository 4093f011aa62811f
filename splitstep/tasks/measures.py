"""Figures of classifiers and regressors as GLUE defines them, from sums over examples."""

from collections.abc import Mapping
from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .task import ACCURACY, Metric

MATTHEWS = Metric("matthews", True, "{:.3f}", "Matthews correlation", -1.0, 1.0)
F1_ACCURACY = Metric("f1_accuracy", True, "{:.2%}", "mean of F1 and accuracy", 0.0, 1.0)
PEARSON = Metric("pearson", True, "{:.3f}", "Pearson correlation", -1.0, 1.0)

Sums = Mapping[str, float]


def class_sums(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of the cross-entropy in nats and of examples; of two classes, how often each was taken for each."""
    found, examples = logits.argmax(-1), float(len(labels))
    nll = functional.cross_entropy(logits.float(), labels, reduction="sum")
    sums = {"nll": float(nll), "correct": float((found == labels).sum()), "examples": examples}
    if logits.shape[-1] == 2:
        taken = torch.bincount(2 * labels + found, minlength=4).tolist()
        sums |= dict(zip(("tn", "fp", "fn", "tp"), map(float, taken), strict=True))
    return sums


def class_figures(sums: Sums) -> dict[str, float]:
    """Loss in nats per example and accuracy; of two classes also the F1 of the second, and Matthews' correlation."""
    examples = sums["examples"]
    figures = {"loss": sums["nll"] / examples, ACCURACY.name: sums["correct"] / examples}
    if "tp" not in sums:
        return figures
    tp, fp, fn, tn = (sums[name] for name in ("tp", "fp", "fn", "tn"))
    f1 = ratio(2 * tp, 2 * tp + fp + fn)
    matthews = ratio(tp * tn - fp * fn, sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
    mean = (f1 + figures[ACCURACY.name]) / 2
    return {**figures, "f1": f1, F1_ACCURACY.name: mean, MATTHEWS.name: matthews}


def number_sums(found: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of predictions x, labels y, of their squares and product, and of squared errors."""
    x, y = found.double().flatten(), labels.double().flatten()
    sums = {"x": x, "y": y, "xx": x * x, "yy": y * y, "xy": x * y, "squares": (x - y).square()}
    return {**{name: float(one.sum()) for name, one in sums.items()}, "examples": float(len(y))}


def number_figures(sums: Sums) -> dict[str, float]:
    """The mean squared error, and Pearson's correlation; 0 if either side is constant."""
    n, x, y = sums["examples"], sums["x"], sums["y"]
    spread = [max(n * sums[name] - total * total, 0.0) for name, total in (("xx", x), ("yy", y))]
    flat = any(part <= 1e-12 * n * sums[name] for part, name in zip(spread, ("xx", "yy"), strict=True))
    pearson = 0.0 if flat else (n * sums["xy"] - x * y) / sqrt(spread[0] * spread[1])
    return {"loss": sums["squares"] / n, PEARSON.name: min(1.0, max(-1.0, pearson))}


def spearman(found: np.ndarray, labels: np.ndarray) -> float:
    """Spearman's correlation; 0 if either side is constant."""
    from scipy.stats import spearmanr

    if len(set(found.tolist())) < 2 or len(set(labels.tolist())) < 2:
        return 0.0
    return float(spearmanr(found, labels).statistic)  # pyright: ignore[reportAttributeAccessIssue]


def ratio(part: float, whole: float) -> float:
    """A quotient that is 0 if nothing is there to divide by, as scikit-learn has it."""
    return part / whole if whole else 0.0
