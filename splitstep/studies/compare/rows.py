"""Trials summed up: figures and losses by seed, and a row per scheme at the setting that validation chose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...experiments.experiment import Observation, between, over_units
from ...experiments.trials import Trial, experiment_of, figure_on
from ...schemes import label, scheme
from ...tasks.measures import Metric
from .result import Comparison, Row

Runs = Sequence[Observation[Trial]]


def rows_of(trials: Sequence[Trial], metric: Metric) -> list[Row]:
    """A row per scheme and arm, in order."""
    experiment = experiment_of(trials, metric)
    arms = dict.fromkeys(one.arm for one in experiment.observations)
    found = [experiment.of(arm) for arm in arms]
    return [row_of(own, found[0] if number else None, metric) for number, own in enumerate(found)]


def row_of(own: Runs, first: Runs | None, metric: Metric) -> Row:
    """The row of these runs, which are compared with those of the first row, unless they are these."""
    test, valid = (figure_on(split, metric) for split in ("test", "valid"))
    finished, one = [run for run in own if run.finished], own[0].run
    rates = [each.run.tokens_per_second for each in own if each.run.tokens_per_second]
    s = scheme(one.scheme)
    return Row(
        name=row_name(one.scheme, one.arm),
        scheme=one.scheme,
        setting=one.setting,
        finished=len(finished),
        diverged=len(own) - len(finished),
        test=over_units(own, test),
        valid=over_units(own, valid),
        difference=None if first is None else between(own, first, test),
        cost=one.cost,
        matched=one.matched,
        shape=one.shape,
        evaluations=s.evaluations,
        order=s.order,
        seconds=math.fsum(each.run.seconds for each in own) / len(own),
        tokens_per_second=math.fsum(rates) / len(rates) if rates else None,
        not_finite=lacking(finished, metric),
        arm=one.arm,
    )


def lacking(finished: Runs, metric: Metric) -> int:
    """How many finished runs have no finite number for the metric on validation or on test."""
    both = [figure_on(split, metric) for split in ("valid", "test")]
    return sum(any(each.seen(run) is None for each in both) for run in finished)


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
