"""Runs summed up: each arm at its own rate and at the full arm's, with everything that was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...experiments.arms import FULL
from ...experiments.experiment import between, over_units
from ...experiments.statistics import Bounds
from ...experiments.trials import Trial, figure_on, observed
from ...tasks.measures import Metric
from .pairs import (
    along,
    at_last,
    attention_heads,
    by_head,
    cka_layers,
    compared,
    cosine_layers,
    other_seeds,
    same_seed,
)
from .plan import setting_of
from .records import (
    LAYERED,
    Values,
    Watched,
    by_seed,
    mean_values,
    over_seeds,
    profile_of,
    read_watched,
    series_of,
)
from .result import Lost, Outcome, Series


def outcomes_of(
    trials: Sequence[Trial], own: Mapping[str, float], metric: Metric, out: Path
) -> dict[str, tuple[Outcome, Outcome]]:
    """Each arm at its own rate and at the full arm's. Differences are to the full arm at its own rate."""
    watched = {trial.folder: read_watched(trial, out) for trial in trials}
    full = at_rate(watched, FULL, own[FULL])
    found: dict[str, tuple[Outcome, Outcome]] = {}
    for arm, rate in own.items():
        deciding = measured(at_rate(watched, arm, rate), rate, full, metric)
        told = deciding if rate == own[FULL] else measured(at_rate(watched, arm, own[FULL]), own[FULL], full, metric)
        found[arm] = replace(deciding, series=series(at_rate(watched, arm, rate), full)), told
    return found


def at_rate(watched: Mapping[str, Watched], arm: str, rate: float) -> list[Watched]:
    return [one for one in watched.values() if (one.trial.arm, one.trial.setting) == (arm, setting_of(rate))]


def measured(runs: Sequence[Watched], rate: float, full: Sequence[Watched], metric: Metric) -> Outcome:
    """One arm at one rate."""
    trials, test, alone = [run.trial for run in runs], figure_on("test", metric), list(runs) == list(full)
    own, reference = observed(trials), observed(one.trial for one in full)
    cka = compared(runs, full, other_seeds, at_last("states", "tokens"), cka_layers)
    base = compared(full, full, other_seeds, at_last("states", "tokens"), cka_layers)
    cosine = compared(runs, full, same_seed, at_last("states", "tokens"), cosine_layers)
    names = dict.fromkeys(name for run in runs for name in run.figures)
    profiles = {name: profile_of(last for run in runs if (last := run.last(name))) for name in names}
    profiles |= {"cka": profile_of(cka.values()), "cosine": profile_of(cosine.values())}
    return Outcome(
        rate=rate,
        finished=sum(trial.status == "finished" for trial in trials),
        lost=tuple(Lost(trial.seed, trial.diverged) for trial in trials if trial.diverged is not None),
        test=over_units(own, test),
        valid=over_units(own, figure_on("valid", metric)),
        difference=None if alone else between(own, reference, test),
        drift=over_seeds(by_seed(runs, last_drift).values(), Bounds(-1.0, 1.0)),
        growth=over_seeds(by_seed(runs, largest_growth).values(), Bounds(0.0)),
        not_finite=sum(not_finite(run.trial) or largest_growth(run) == math.inf for run in runs),
        alignment=None if alone else over_seeds(alignments(cka, base).values()),
        profiles={name: found for name, found in profiles.items() if found},
        maps=head_maps(runs, full),
    )


def last_drift(run: Watched) -> float | None:
    """cos(u_L, u_0) at the last record."""
    found = run.last("drift")
    return found[-1] if found else None


def largest_growth(run: Watched) -> float | None:
    """The growth of the gradient per layer, at the record where it is largest."""
    found = [value for values in run.figures.get("growth", {}).values() for value in values if not math.isnan(value)]
    return max(found, default=None)


def not_finite(trial: Trial) -> bool:
    """Whether a run ended with a loss or a gradient that is not finite."""
    lost = trial.diverged
    return lost is not None and not (math.isfinite(lost.loss) and math.isfinite(lost.gradient_norm))


def alignments(cka: Mapping[int, Values], base: Mapping[int, Values]) -> dict[int, float]:
    """The mean over layers of CKA with the full arm minus that of two seeds of it, by seed; layer 0 is the input."""
    return {seed: mean(values[1:]) - mean(base[seed][1:]) for seed, values in cka.items() if seed in base}


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def head_maps(runs: Sequence[Watched], full: Sequence[Watched]) -> dict[str, tuple[Values, ...]]:
    """How far attention is from the full arm's, from the same start, for each layer and head: means over seeds."""
    real = next((one for run in full if (one := at_last("attention", "A queries")(run)) is not None), None)
    found = compared(runs, full, same_seed, at_last("attention", "A weights"), attention_heads(real))
    known = [values for values in found.values() if all(map(math.isfinite, values))]
    layers = next((len(run.last("entropy") or ()) for run in runs), 0)
    return by_head(mean_values(known), layers) if known and layers else {}


def series(runs: Sequence[Watched], full: Sequence[Watched]) -> dict[str, Series]:
    """The figures along training."""
    found = {name: series_of([run.figures[name] for run in runs if name in run.figures]) for name in LAYERED}
    found["cka"] = series_of(along(runs, full, other_seeds, cka_layers, "states", "tokens"))
    return {name: one for name, one in found.items() if one is not None}
