"""Trials summed up: figures and losses by seed, and a row per scheme at the setting that validation chose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...experiments.records import Setting, Trial
from ...experiments.statistics import Bounds, estimate, paired_difference
from ...schemes import label, scheme
from ...tasks import Metric
from .result import Comparison, Row


def rows_of(trials: Sequence[Trial], metric: Metric) -> list[Row]:
    """A row per scheme and arm, in order."""
    rows: list[Row] = []
    first: dict[int, float] = {}
    bounds = Bounds(metric.least, metric.greatest)
    for notation, arm in dict.fromkeys((t.scheme, t.arm) for t in trials):
        every = [t for t in trials if (t.scheme, t.arm) == (notation, arm)]
        setting = choose_setting(every, metric)
        own = [t for t in every if t.setting == setting]
        finished = [t for t in own if t.status == "finished"]
        test = figures(own, "test", metric.name)
        if not rows:
            first = test
        rates = [t.tokens_per_second for t in own if t.tokens_per_second]
        s = scheme(notation)
        rows.append(
            Row(
                name=row_name(notation, arm),
                scheme=notation,
                setting=setting,
                finished=len(finished),
                diverged=len(own) - len(finished),
                test=estimate(list(test.values()), bounds=bounds),
                valid=estimate(list(figures(own, "valid", metric.name).values()), bounds=bounds),
                difference=paired_difference(test, first, bounds) if rows else None,
                cost=own[0].cost,
                matched=own[0].matched,
                shape=own[0].shape,
                evaluations=s.evaluations,
                order=s.order,
                seconds=math.fsum(t.seconds for t in own) / len(own),
                tokens_per_second=math.fsum(rates) / len(rates) if rates else None,
                not_finite=sum(not is_finite(t, metric.name) for t in finished),
                arm=arm,
            )
        )
    return rows


def row_name(notation: str, arm: str) -> str:
    """A scheme by its name, with the arm if it has one."""
    return f"{label(notation)}, {arm}" if arm else label(notation)


def against(result: Comparison, text: str) -> Comparison:
    """The comparison with another of its rows first, so differences are to that one."""
    names = {row.name: (row.scheme, row.arm) for row in result.rows}
    first = names[text] if text in names else (str(scheme(text)), "")
    if first not in names.values():
        raise ValueError(f"{text} is not in this comparison: use one of {', '.join(names)}.")
    if result.tests:
        raise ValueError(
            f"differences on test sets need the translations: run `splitstep compare` again with {text} first; "
            "finished runs are kept."
        )
    trials = sorted(result.trials, key=lambda t: (t.scheme, t.arm) != first)
    return replace(result, trials=tuple(trials), rows=tuple(rows_of(trials, result.metric)))


def choose_setting(trials: Sequence[Trial], metric: Metric) -> Setting:
    """The setting with the fewest failed runs; among those, the one with the best mean validation figure."""
    sign = -1.0 if metric.higher_is_better else 1.0

    def rank(setting: Setting) -> tuple[int, float]:
        own = [t for t in trials if t.setting == setting]
        valid = estimate(list(figures(own, "valid", metric.name).values()))
        failed = sum(t.status != "finished" or not is_finite(t, metric.name) for t in own)
        return failed, sign * valid.mean if valid else math.inf

    return min(dict.fromkeys(t.setting for t in trials), key=rank)


def figures(trials: Iterable[Trial], split: str, metric: str) -> dict[int, float]:
    """The metric of the finished runs for which it is a finite number, by seed."""
    found = {t.seed: (getattr(t, split) or {}).get(metric, math.nan) for t in trials if t.status == "finished"}
    return {seed: value for seed, value in found.items() if math.isfinite(value)}


def is_finite(trial: Trial, metric: str) -> bool:
    """Whether the metric of a finished run is a finite number on both splits."""
    return all(math.isfinite((figures or {}).get(metric, math.nan)) for figures in (trial.valid, trial.test))


def losses(trials: Iterable[Trial], split: str) -> dict[int, float]:
    """The losses of the finished runs that have one, by seed: of the kept weights if held out, as trained on train."""
    if split != "train":
        return figures(trials, split, "loss")
    return {t.seed: last_losses(t) for t in trials if t.status == "finished" and t.train_loss.steps}


def last_losses(trial: Trial) -> float:
    """The mean training loss over the last tenth of the steps, or the last one logged."""
    curve = trial.train_loss
    values = [value for step, value in zip(*curve, strict=True) if step > 0.9 * trial.steps] or curve.values[-1:]
    return math.fsum(values) / len(values)
