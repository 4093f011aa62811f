"""Scores of GLUE's tasks as its leaderboard averages them, and what the commonest class gives."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...experiments.statistics import Bounds
from ...tasks.glue import PARTS
from ...tasks.measures import F1_ACCURACY, PEARSON, class_figures
from ...tasks.sentences import Sentences
from .result import Majority

DEFAULT = ("cola", "sst2", "mrpc", "rte", "stsb")
APART = frozenset({"wnli"})  # never in the mean
POINTS = 100.0
TITLES = {"matthews": "Matthews", "f1": "F1", "accuracy": "accuracy", "pearson": "Pearson", "spearman": "Spearman"}


def figures_of(task: str) -> tuple[str, ...]:
    """The figures that a task's score is the mean of."""
    metric = PARTS[task].metric
    return {F1_ACCURACY: ("f1", "accuracy"), PEARSON: ("pearson", "spearman")}.get(metric, (metric.name,))


def score_of(task: str, figures: Mapping[str, float]) -> float:
    """The score of a run in points; NaN if a figure is missing."""
    names = figures_of(task)
    return POINTS * math.fsum(figures.get(name, math.nan) for name in names) / len(names)


def bounds_of(task: str) -> Bounds:
    """The least and the greatest score of a task in points."""
    metric = PARTS[task].metric
    assert metric.least is not None
    assert metric.greatest is not None
    return Bounds(POINTS * metric.least, POINTS * metric.greatest)


def majority_of(name: str, task: Sentences) -> Majority:
    """What the commonest class of the training set gives on the published dev set; of numbers, any constant."""
    if not task.labels:
        found = dict.fromkeys(figures_of(name), 0.0)
    else:
        counts = np.bincount(task.examples["train"].labels, minlength=len(task.labels))
        found = constant_figures(int(counts.argmax()), task.examples["test"].labels, len(task.labels))
    figures = {one: POINTS * found[one] for one in figures_of(name)}
    return Majority(name, score_of(name, found), figures)


def constant_figures(guess: int, labels: np.ndarray, classes: int) -> dict[str, float]:
    """The figures of a classifier that always says the same."""
    right, n = float((labels == guess).sum()), float(len(labels))
    sums = {"nll": math.nan, "correct": right, "examples": n}
    if classes == 2:
        wrong = n - right
        positive = {"tp": right, "fp": wrong, "tn": 0.0, "fn": 0.0}
        sums |= positive if guess == 1 else {"tp": 0.0, "fp": 0.0, "tn": right, "fn": wrong}
    return class_figures(sums)
