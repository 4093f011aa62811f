"""Does a scheme fit better, and does that carry over? Losses in training, and of the kept weights on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from ..statistics import Estimate, estimate, paired_difference
from .result import Comparison, Row, Trial

SPLITS = ("training", "validation", "test")
NOTE = (
    "Training losses are means over the last tenth of the steps, as trained: with dropout and smoothed labels where "
    "the recipe has them. The others are of the weights that were kept."
)


class Loss(NamedTuple):
    """The loss of one scheme on one split, and how far it is from the first scheme's, seed by seed."""

    mean: Estimate | None
    difference: Estimate | None

    def text(self) -> str:
        return "-" if self.mean is None else f"{self.mean.mean:.3f}"

    def difference_text(self) -> str:
        found = self.difference
        if found is None:
            return ""
        if found.low is None or found.high is None:
            return f"{found.mean:+.3f}\none seed"
        return f"{found.mean:+.3f}\n[{found.low:+.3f}, {found.high:+.3f}]"


def losses(result: Comparison, rows: Sequence[Row]) -> list[list[Loss]]:
    """The losses of each row on each of SPLITS; differences are to the first row."""
    found = [[by_seed(result.chosen(row), split) for split in SPLITS] for row in rows]
    return [
        [
            Loss(estimate(list(own.values())), paired_difference(own, first) if i else None)
            for own, first in zip(row, found[0], strict=True)
        ]
        for i, row in enumerate(found)
    ]


def by_seed(trials: Sequence[Trial], split: str) -> dict[int, float]:
    """The losses of the finished runs that have one."""
    finished = [trial for trial in trials if trial.status == "finished"]
    if split == "training":
        return {trial.seed: late(trial) for trial in finished if trial.train_loss.steps}
    found = {trial.seed: trial.valid if split == "validation" else trial.test for trial in finished}
    return {seed: one["loss"] for seed, one in found.items() if one and "loss" in one}


def late(trial: Trial) -> float:
    """The mean training loss over the last tenth of the steps, or what was logged last."""
    curve = trial.train_loss
    values = [value for step, value in zip(*curve, strict=True) if step > 0.9 * trial.steps] or curve.values[-1:]
    return fsum(values) / len(values)
