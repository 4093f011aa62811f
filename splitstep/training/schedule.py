"""Learning-rate schedules: pure functions of the step."""

from __future__ import annotations

from math import cos, pi, sqrt

from .recipe import TrainOptions


def learning_rate(options: TrainOptions, step: int) -> float:
    """The learning rate of update number `step`, counted from 0: a linear warm-up, then the schedule."""
    if step < options.warmup:
        return options.warmup_from + (options.lr - options.warmup_from) * (step + 1) / options.warmup
    if options.schedule == "inverse-sqrt":
        return options.lr * sqrt(max(options.warmup, 1) / (step + 1))
    if options.schedule == "constant":
        return options.lr
    done = (step - options.warmup) / max(options.steps - options.warmup, 1)
    rest = 1 - done if options.schedule == "linear" else (1 + cos(pi * done)) / 2
    return options.lr * (options.final + (1 - options.final) * rest)
