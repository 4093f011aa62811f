"""The loss of a classifier's head, as transformers defines it: one label, several labels, or numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..kernels.loss import cross_entropy
from .inputs import check_labels


def problem_of(config: Any, labels: Tensor) -> str:
    """What the head does: what the config says, else what transformers would conclude from the labels."""
    if config.problem_type is not None:
        return config.problem_type
    if config.num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def class_loss(
    config: Any, logits: Tensor, labels: Tensor, items: Tensor | int | None, wide: Tensor | None = None
) -> Tensor:
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
