"""Does a scheme fit better, and does that carry over? Losses in training, and of the kept weights on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from .result import Trial
from .rows import figures

SPLITS = {"training": "train", "validation": "valid", "test": "test"}  # as readers call them, and as runs do
NOTE = (
    "Training losses are means over the last tenth of the steps, as trained: with dropout and smoothed labels where "
    "the recipe has them. The others are of the weights that were kept."
)


def losses(trials: Sequence[Trial], split: str) -> dict[int, float]:
    """The losses of the finished runs that have one, by seed."""
    if split != "train":
        return figures(trials, split, "loss")
    return {trial.seed: late(trial) for trial in trials if trial.status == "finished" and trial.train_loss.steps}


def late(trial: Trial) -> float:
    """The mean training loss over the last tenth of the steps, or what was logged last."""
    curve = trial.train_loss
    values = [value for step, value in zip(*curve, strict=True) if step > 0.9 * trial.steps] or curve.values[-1:]
    return fsum(values) / len(values)
