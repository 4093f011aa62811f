"""Runs summed up: each arm at its own rate and at the full arm's, with everything that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...tasks import Metric
from ..arms import FULL
from ..compare.result import Trial
from ..compare.rows import figures
from ..statistics import Bounds, estimate, paired_difference
from .plan import setting_of
from .result import Lost, Outcome


def outcomes_of(
    trials: Sequence[Trial], own: Mapping[str, float], metric: Metric, out: Path
) -> dict[str, tuple[Outcome, Outcome]]:
    """Each arm at its own rate and at the full arm's. Differences are to the full arm at its own rate."""
    full = at_rate(trials, FULL, own[FULL])
    return {
        arm: (
            outcome(at_rate(trials, arm, rate), rate, full, metric),
            outcome(at_rate(trials, arm, own[FULL]), own[FULL], full, metric),
        )
        for arm, rate in own.items()
    }


def at_rate(trials: Sequence[Trial], arm: str, rate: float) -> list[Trial]:
    return [trial for trial in trials if (trial.arm, trial.setting) == (arm, setting_of(rate))]


def outcome(runs: Sequence[Trial], rate: float, full: Sequence[Trial], metric: Metric) -> Outcome:
    """One arm at one rate."""
    bounds = Bounds(metric.least, metric.greatest)
    test, reference = figures(runs, "test", metric.name), figures(full, "test", metric.name)
    return Outcome(
        rate=rate,
        finished=sum(run.status == "finished" for run in runs),
        lost=tuple(Lost(run.seed, run.diverged) for run in runs if run.diverged is not None),
        test=estimate(list(test.values()), bounds=bounds),
        valid=estimate(list(figures(runs, "valid", metric.name).values()), bounds=bounds),
        difference=None if runs == full else paired_difference(test, reference, bounds),
    )
