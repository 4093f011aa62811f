"""Networks compared in pairs: an arm with the full arm, beside two seeds of the full arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from .records import Values, Watched, mean_values

Load = Callable[[Watched], Tensor | None]
Measure = Callable[[Tensor, Tensor], Values]
Partners = Callable[[Watched, Sequence[Watched]], list[Watched]]


def other_seeds(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    return [one for one in full if one.seed != run.seed]


def same_seed(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    """The full network from the same start on the same batches; for a full network itself, those of other seeds."""
    same = [one for one in full if one.seed == run.seed]
    return other_seeds(run, full) if any(one.trial.folder == run.trial.folder for one in same) else same


def compared(
    runs: Sequence[Watched], full: Sequence[Watched], partners: Partners, load: Load, measure: Measure
) -> dict[int, Values]:
    """What is measured between each run and its partners among the full runs, in the mean over them, by seed.

    Networks of other depths have no layers that correspond, so they are left out.
    """
    loaded = {run.trial.folder: load(run) for run in {one.trial.folder: one for one in (*runs, *full)}.values()}
    found: dict[int, Values] = {}
    for run in runs:
        own, others = loaded[run.trial.folder], [loaded[one.trial.folder] for one in partners(run, full)]
        values = [measure(own, one) for one in others if own is not None and one is not None and len(own) == len(one)]
        if values:
            found[run.seed] = mean_values(values)
    return found


def at_last(probe: str, series: str) -> Load:
    """Loads what a probe found at a run's last record."""
    return lambda run: run.tensor(run.steps[-1], probe, series) if run.steps else None


def along(
    runs: Sequence[Watched], full: Sequence[Watched], partners: Partners, measure: Measure, probe: str, series: str
) -> list[Mapping[int, Values]]:
    """The same at every record that the runs share, by step for each seed."""
    found: dict[int, dict[int, Values]] = {}
    for step in sorted({step for run in runs for step in run.steps}):
        for seed, values in compared(
            runs, full, partners, lambda run, step=step: run.tensor(step, probe, series), measure
        ).items():
            found.setdefault(seed, {})[step] = values
    return list(found.values())
