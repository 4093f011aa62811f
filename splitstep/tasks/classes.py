"""Scoring a classifier: what image and text classification have in common."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from splitstep.tasks.task import ACCURACY, Task, check_totals


def score_classes(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Sums of the surprise in nats, of right guesses and of examples; logits [B, classes], labels [B]."""
    nll = functional.cross_entropy(logits.float(), labels, reduction="sum")
    correct = (logits.argmax(-1) == labels).sum()
    return {"nll": float(nll), "correct": float(correct), "examples": float(len(labels))}


def summarise_classes(task: Task, totals: Mapping[str, float]) -> dict[str, float]:
    """Loss in nats an example, and accuracy."""
    examples = check_totals(task, totals, "examples")
    return {"loss": totals["nll"] / examples, ACCURACY.name: totals["correct"] / examples}
