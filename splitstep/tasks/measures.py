"""What is scored: sums over a batch, and the figures that follow from the sums of all batches.

Those of classifiers and regressors are as GLUE defines them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

Sums = Mapping[str, float]


class Metric(NamedTuple):
    """A figure by which runs are compared, and how a table prints it; `title` if the name alone is not clear.

    Intervals end at the least and the greatest value that the figure can have.
    """

    name: str
    higher_is_better: bool
    format: str
    title: str = ""
    least: float | None = None
    greatest: float | None = None


def title_of(metric: Metric) -> str:
    """What a table calls the metric."""
    return metric.title or metric.name.replace("_", " ")


ACCURACY = Metric("accuracy", True, "{:.2%}", least=0.0, greatest=1.0)
BITS_PER_BYTE = Metric("bits_per_byte", False, "{:.3f}", least=0.0)
PERPLEXITY = Metric("perplexity", False, "{:,.2f}", least=1.0)
MASKED_ACCURACY = Metric("accuracy", True, "{:.2%}", "masked accuracy", 0.0, 1.0)
MATTHEWS = Metric("matthews", True, "{:.3f}", "Matthews correlation", -1.0, 1.0)
F1_ACCURACY = Metric("f1_accuracy", True, "{:.2%}", "mean of F1 and accuracy", 0.0, 1.0)
PEARSON = Metric("pearson", True, "{:.3f}", "Pearson correlation", -1.0, 1.0)


class Measure(NamedTuple):
    """A metric, the sums over a batch of logits and labels, the figures that follow from them, and which of the sums
    counts what was scored."""

    metric: Metric
    sums: Callable[[Tensor, Tensor], dict[str, float]]
    figures: Callable[[Sums], dict[str, float]]
    counted: str = "examples"


def score_tokens(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of the cross-entropy in nats, of correct predictions and of tokens with a label; logits [B, T, V]."""
    from ..kernels.loss import IGNORED, cross_entropy

    nll, correct = cross_entropy(logits, labels, 1), logits.argmax(-1) == labels
    return {"nll": float(nll), "correct": float(correct.sum()), "tokens": float((labels != IGNORED).sum())}


def score_next_tokens(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """As `score_tokens`; logits align with the inputs, and each predicts the next token."""
    from ..kernels.loss import shifted

    return score_tokens(logits, shifted(labels))


def token_figures(sums: Sums) -> dict[str, float]:
    """Loss in nats per token, and the accuracy of the likeliest one."""
    return {"loss": sums["nll"] / sums["tokens"], ACCURACY.name: sums["correct"] / sums["tokens"]}


def perplexity_figures(sums: Sums) -> dict[str, float]:
    """Those of tokens, and the perplexity; a float holds little more than e^700."""
    figures = token_figures(sums)
    return figures | {PERPLEXITY.name: math.exp(min(figures["loss"], 700.0))}


def byte_figures(sums: Sums) -> dict[str, float]:
    """Those of tokens, and bits per byte; unless bytes are counted apart, tokens are bytes."""
    bits = sums["nll"] / math.log(2)
    return token_figures(sums) | {BITS_PER_BYTE.name: bits / sums.get("bytes", sums["tokens"])}


def count_classes(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of the cross-entropy in nats, of correct predictions and of examples."""
    from torch.nn import functional

    nll = functional.cross_entropy(logits.float(), labels, reduction="sum")
    correct = (logits.argmax(-1) == labels).sum()
    return {"nll": float(nll), "correct": float(correct), "examples": float(len(labels))}


def class_sums(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """As `count_classes`; of two classes also how often each was taken for each."""
    sums = count_classes(logits, labels)
    if logits.shape[-1] == 2:
        taken = (2 * labels + logits.argmax(-1)).bincount(minlength=4).tolist()
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
    matthews = ratio(tp * tn - fp * fn, math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)))
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
    pearson = 0.0 if flat else (n * sums["xy"] - x * y) / math.sqrt(spread[0] * spread[1])
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


CLASSES = Measure(ACCURACY, count_classes, class_figures)
LABELS = Measure(ACCURACY, class_sums, class_figures)
NUMBERS = Measure(PEARSON, number_sums, number_figures)
BYTES = Measure(BITS_PER_BYTE, score_next_tokens, byte_figures, "tokens")
WORDS = Measure(PERPLEXITY, score_next_tokens, perplexity_figures, "tokens")
