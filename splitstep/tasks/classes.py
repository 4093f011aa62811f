"""Classification: what image and text classification have in common."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from torch import Tensor
from torch.nn import functional

from .task import ACCURACY, Batch, Metric, Task, check_totals


class Classes(Task):
    """A classification task: logits are [B, classes], `labels` [B]."""

    metric: Metric = ACCURACY

    @final
    def score(self, logits: Tensor, batch: Batch) -> dict[str, float]:
        """Sums of the cross-entropy in nats, of correct predictions and of examples."""
        labels = batch["labels"]
        nll = functional.cross_entropy(logits.float(), labels, reduction="sum")
        correct = (logits.argmax(-1) == labels).sum()
        return {"nll": float(nll), "correct": float(correct), "examples": float(len(labels))}

    @final
    def summary(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Loss in nats per example, and accuracy."""
        examples = check_totals(self, totals, "examples")
        return {"loss": totals["nll"] / examples, ACCURACY.name: totals["correct"] / examples}

    @final
    def _counts(self, labels: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The number of examples in each split, in all and by class."""
        return {
            "examples": {split: len(found) for split, found in labels.items()},
            "classes": {
                split: np.bincount(found, minlength=len(self.labels)).tolist() for split, found in labels.items()
            },
        }
