"""The losses of heads: of tokens, of classes as transformers defines them, of numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..kernels.loss import IGNORED, cross_entropy, project, shifted
from .inputs import check_labels

Items = Tensor | int | None  # what a sum is divided by; None: a mean


def read_tokens(
    head: nn.Module, x: Tensor, labels: Tensor | None, items: Items, smoothing: float = 0.0, ahead: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Logits of the states, and the cross-entropy of their labels; `ahead`: position i predicts token i + 1."""
    logits, wide = project(head, x)
    if labels is None:
        return logits, None
    check_labels(labels, logits)
    return logits, cross_entropy(logits, shifted(labels) if ahead else labels, items, smoothing, wide)


def problem_of(config: Any, labels: Tensor) -> str:
    """What the head does: what the config says, else what transformers would conclude from the labels."""
    if config.problem_type is not None:
        return config.problem_type
    if config.num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def class_loss(config: Any, logits: Tensor, labels: Tensor, items: Items, wide: Tensor | None = None) -> Tensor:
    """Cross-entropy of one label, binary cross-entropy of several (floats, 0 or 1), squared error of numbers: the mean,
    or the sum divided by `items`. The config keeps what the problem was: pipelines read it."""
    problem = problem_of(config, labels)
    if problem == "single_label_classification":
        check_labels(labels.flatten(), logits)
        return cross_entropy(logits, labels.flatten(), items, wide=wide)
    if config.problem_type is None:
        config.problem_type = problem
    if logits.numel() != labels.numel():
        raise ValueError(
            f"labels have shape {list(labels.shape)}: a head of num_labels={config.num_labels} for {problem} needs "
            f"{list(logits.shape)}."
        )
    measure = functional.mse_loss if problem == "regression" else functional.binary_cross_entropy_with_logits
    exact = torch.promote_types(logits.dtype, torch.float32)
    found, wanted = logits.to(exact), labels.to(exact).view(logits.shape)
    return measure(found, wanted) if items is None else measure(found, wanted, reduction="sum") / items


def mean_square(y: Tensor, labels: Tensor, mask: Tensor | None, items: Items) -> Tensor:
    """The mean square of the difference over tokens that are not padding, or the sum divided by `items`."""
    if labels.shape != y.shape:
        raise ValueError(
            f"labels have shape {list(labels.shape)}, and there are logits for {list(y.shape)}: give as many."
        )
    square = (y - labels).square()
    if mask is not None and mask.ndim == 2:
        square = square[mask.bool()]
    return square.mean() if items is None else square.sum() / items


def pair_loss(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of the second head's cross-entropy over labels that count, 0 if none does; or its sum with weights."""
    rows = logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32))
    losses = functional.cross_entropy(rows, labels.flatten(), ignore_index=IGNORED, reduction="none")
    if weights is None:
        return losses.sum() / (labels != IGNORED).sum().clamp(min=1)
    return (losses * weights.flatten()).sum()
