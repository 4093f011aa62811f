"""Rows and paired differences from runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...distillation.judging.exam import Figures
from ...distillation.method import parse_method
from ...experiments.statistics import Bounds, Estimate, estimate, paired_difference
from .plan import base_of
from .result import BITS, ROUGE, Difference, DistilRun, MethodRow

Figure = Callable[[Figures], float | None]
POINTS, SHARE, POSITIVE = Bounds(0, 100), Bounds(0, 1), Bounds(0)


def by_seed(runs: Sequence[DistilRun], method: str, figure: Figure) -> dict[int, float]:
    """A figure of the method's runs that have it."""
    found = {run.seed: figure(run.figures) for run in runs if run.method == method and run.figures}
    return {seed: value for seed, value in found.items() if value is not None}


def row_of(runs: Sequence[DistilRun], method: str, methods: Sequence[str], sets: Sequence[str]) -> MethodRow:
    own = [run for run in runs if run.method == method]
    finished = sum(run.status == "finished" for run in own)

    def mean(figure: Figure, bounds: Bounds) -> Estimate | None:
        """The mean of a figure that all runs have; those of an older version may lack one."""
        values = list(by_seed(runs, method, figure).values())
        return estimate(values, bounds=bounds) if len(values) == sum(run.figures is not None for run in own) else None

    on_sets = {name: mean(lambda one, name=name: one.rouge_on.get(name), POINTS) for name in sets}
    return MethodRow(
        method=method,
        written=str(parse_method(method)),
        base=base_of(method, methods),
        finished=finished,
        diverged=len(own) - finished,
        rouge=mean(lambda one: one.rouge, POINTS),
        rouge_on={name: found for name, found in on_sets.items() if found is not None},
        bits_per_byte=mean(lambda one: one.bits_per_byte, POSITIVE),
        text_bits_per_byte=mean(lambda one: one.text_bits_per_byte, POSITIVE),
        top1=mean(lambda one: one.top1, SHARE),
        kl=mean(lambda one: one.kl, POSITIVE),
        ended=mean(lambda one: one.ended, SHARE),
    )


def differences_of(rows: Sequence[MethodRow], runs: Sequence[DistilRun]) -> list[Difference]:
    """Each method minus its base in ROUGE-L, then in bits per byte."""
    pairs = [(row.method, row.base) for row in rows if row.base]
    rouge = [difference(ROUGE, runs, *pair, lambda one: one.rouge) for pair in pairs]
    return [*rouge, *(difference(BITS, runs, *pair, lambda one: one.bits_per_byte) for pair in pairs)]


def difference(what: str, runs: Sequence[DistilRun], of: str, to: str, figure: Figure) -> Difference:
    assert what in (ROUGE, BITS)
    ours, theirs = (by_seed(runs, method, figure) for method in (of, to))
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    return Difference(what, of, to, seeds, paired_difference(ours, theirs))  # pyright: ignore[reportArgumentType]
